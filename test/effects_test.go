package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

const performedCount = "select count(*) from effects where state = 'performed'"

// effect is an HTTP effect for a source's list of effects, with more keys.
func effect(r *harness.Receiver, name, more string) string {
	return fmt.Sprintf("effects: [{name: %s, http: {url: '%s', secret: {env: EFFECT_SECRET}}%s}]", name, r.URL, more)
}

// expectCalls checks how often each key was called.
func expectCalls(t *testing.T, r *harness.Receiver, want map[string]int) {
	t.Helper()
	calls := r.Calls()
	for key, n := range want {
		if len(calls[key]) != n {
			t.Errorf("%s was called %d times, want %d", key, len(calls[key]), n)
		}
	}
	if len(calls) != len(want) {
		t.Errorf("%d keys were called, want %d: %v", len(calls), len(want), calls)
	}
}

func awaitCalls(t *testing.T, r *harness.Receiver, count int) {
	t.Helper()
	harness.Await(t, time.Minute, fmt.Sprintf("%d calls", count), func() error {
		if n := r.Count(); n < count {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

func TestACrashBetweenPerformingAndRecordingRepeatsTheCall(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	s, ingress := mailSystem(t, effect(receiver, "crm", ", timeout: 5s"))
	register(s, "m1", "m2")
	processor := s.StartService("processor", "CATCHWATER_EFFECT_LEASE=5s")
	receiver.Hold()
	happened(t, ingress, harness.Happening{Message: "m1", Event: "bounced", At: 1767323050})
	awaitCalls(t, receiver, 1)
	processor.Kill()
	receiver.Release()
	if n := s.Int(performedCount); n != 0 {
		t.Fatal("the call was recorded before the kill")
	}
	processor.Start()
	processor.AwaitReady()
	s.AwaitInt(time.Minute, 1, performedCount)
	// The same again, with nobody killed.
	happened(t, ingress, harness.Happening{Message: "m2", Event: "bounced", At: 1767323050})
	s.AwaitInt(time.Minute, 2, performedCount)
	first, second := "mail:crm:m1%7Cmessage%2Ebounced%7C1767323050%7Ca@example%2Eorg", "mail:crm:m2%7Cmessage%2Ebounced%7C1767323050%7Ca@example%2Eorg"
	expectCalls(t, receiver, map[string]int{first: 2, second: 1})
	calls := receiver.Calls()[first]
	if len(calls) == 2 && !bytes.Equal(calls[0].Body, calls[1].Body) {
		t.Errorf("the repeated call differs:\n%s\n%s", calls[0].Body, calls[1].Body)
	}
	if n := s.Int("select count(*) from effects where attempts = 2"); n != 1 {
		t.Errorf("%d effects have two attempts, want 1", n)
	}
	if !strings.Contains(processor.Log(), "repeating a call of which no end was recorded") {
		t.Error("the log does not tell of it")
	}
}

// TestNothingButACrashRepeatsACall restarts processors in order under slow calls,
// and takes the database away while calls are under way.
func TestNothingButACrashRepeatsACall(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	s, ingress := mailSystem(t, "messages: {create: true}", effect(receiver, "crm", ", timeout: 20s"))
	processors := []*harness.Service{s.StartService("processor", "CATCHWATER_EFFECT_LEASE=5s"), s.StartService("processor", "CATCHWATER_EFFECT_LEASE=5s")}
	total := 0
	send := func(count int) {
		t.Helper()
		for range count {
			total++
			happened(t, ingress, harness.Happening{Message: fmt.Sprintf("m%d", total), Event: "sent", At: 1767323050})
		}
	}
	send(100)
	for _, p := range processors { // each stops with calls under way
		send(20)
		receiver.Hold()
		send(20)
		awaitCalls(t, receiver, 1)
		p.Signal(syscall.SIGTERM)
		receiver.Release()
		<-p.Done()
		p.Start()
		p.AwaitReady()
	}
	s.AwaitInt(time.Minute, total, performedCount)

	receiver.Hold()
	before := receiver.Count()
	send(4)
	awaitCalls(t, receiver, before+4)
	s.StopPostgres()
	receiver.Release()
	harness.Await(t, 30*time.Second, "the log to tell that effects cannot be recorded", func() error {
		if !strings.Contains(processors[0].Log()+processors[1].Log(), "what came of effects cannot be recorded") {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	s.StartPostgres()
	s.AwaitInt(time.Minute, total, performedCount)
	if receiver.Keys() != total || receiver.Count() != total {
		t.Errorf("%d keys were called in %d calls, want %d", receiver.Keys(), receiver.Count(), total)
	}
}

func TestATargetThatIsDownAndComesBack(t *testing.T) {
	t.Parallel()
	down, live := harness.NewReceiver(t), harness.NewReceiver(t)
	down.Down()
	s, ingress := mailSystem(t, "messages: {create: true}", fmt.Sprintf(`effects:
      - {name: crm, http: {url: '%s', secret: {env: EFFECT_SECRET}}, max_attempts: 1000, retry_base: 50ms, retry_max: 500ms}
      - {name: live, http: {url: '%s', secret: {env: EFFECT_SECRET}}}`, down.URL, live.URL))
	processor := s.StartService("processor", "CATCHWATER_SCAN_INTERVAL=100ms")
	for n := range 30 {
		happened(t, ingress, harness.Happening{Message: fmt.Sprintf("m%d", n), Event: "sent", At: 1767323050})
	}
	s.AwaitInt(time.Minute, 30, performedCount) // those of the other
	harness.Await(t, 30*time.Second, "failures to be counted", func() error {
		if n := processor.Metric(`catchwater_effects_total{effect="crm",outcome="failed",source="mail"}`); n < 30 {
			return fmt.Errorf("there are %v", n)
		}
		return nil
	})
	if n := s.Int("select count(*) from effects where name = 'crm' and last_error like 'no answer: %refused' and state = 'pending'"); n == 0 {
		t.Error("no effect tells why it is pending")
	}
	down.Up()
	s.AwaitInt(time.Minute, 60, performedCount)
	for name, r := range map[string]*harness.Receiver{"crm": down, "live": live} {
		if r.Keys() != 30 || r.Count() != 30 {
			t.Errorf("%s: %d keys in %d calls, want 30", name, r.Keys(), r.Count())
		}
	}
}

func TestAnEffectThatIsGivenUpAndRetried(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	receiver.Answer(http.StatusInternalServerError)
	s, ingress := mailSystem(t, "messages: {create: true}", effect(receiver, "crm", ", max_attempts: 3, retry_base: 10ms"))
	processor := s.StartService("processor", "CATCHWATER_SCAN_INTERVAL=50ms")
	happened(t, ingress, harness.Happening{Message: "m1", Event: "sent", At: 1767323050})
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where state = 'given_up' and attempts = 3 and last_error = 'the answer is 500 Internal Server Error'")
	if n := processor.Metric(`catchwater_effects_total{effect="crm",outcome="given_up",source="mail"}`); n != 1 {
		t.Errorf("%v are counted as given up", n)
	}
	receiver.Answer(http.StatusAccepted)
	operate := exec.Command(harness.Program(t, "catchwater"), "effects", "retry", "--source", "mail", "--name", "crm")
	operate.Env = append(operate.Environ(), "DATABASE_URL="+s.DatabaseURL())
	if out, err := operate.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "1 effects that were given up will be tried again") {
		t.Fatalf("%s: %v", out, err)
	}
	s.AwaitInt(time.Minute, 1, performedCount)
	expectCalls(t, receiver, map[string]int{"mail:crm:m1%7Cmessage%2Esent%7C1767323050%7Ca@example%2Eorg": 4})
}

func TestWhichEventsHaveWhichEffects(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	call := fmt.Sprintf("http: {url: '%s', secret: {env: EFFECT_SECRET}}", receiver.URL)
	s, ingress := mailSystem(t, "effects:", "  - {name: bounces, on: change, statuses: [bounced], "+call+"}", "  - {name: opens, types: [message.opened], "+call+"}")
	s.StartService("processor")
	register(s, "m1")
	// One after the other: what an event changes depends on what came before.
	for n, event := range []string{"sent", "bounced"} {
		happened(t, ingress, harness.Happening{Message: "m1", Event: event, At: 1767323045 + int64(5*n)})
		s.AwaitInt(time.Minute, n+1, processedCount)
	}
	for _, h := range []harness.Happening{
		{Message: "m1", Event: "bounced", At: 1767323060},                                                  // bounced it is already
		{Message: "m1", Event: "opened", At: 1767323055}, {Message: "m1", Event: "opened", At: 1767323055}, // the same once more
		{Message: "m2", Event: "opened", At: 1767323070}, // waits
	} {
		happened(t, ingress, h)
	}
	s.AwaitInt(time.Minute, 4, processedCount)
	s.AwaitInt(time.Minute, 1, "select count(*) from inbox where state = 'waiting'")
	s.AwaitInt(time.Minute, 2, performedCount)
	bounced := "mail:bounces:m1%7Cmessage%2Ebounced%7C1767323050%7Ca@example%2Eorg"
	want := map[string]int{bounced: 1, "mail:opens:m1%7Cmessage%2Eopened%7C1767323055%7Ca@example%2Eorg": 1}
	expectCalls(t, receiver, want)
	var told struct {
		Type, Subject, Timestamp string
		Change                   struct {
			Status, Previous string
			Changed          bool
		}
		Data struct {
			MessageID string `json:"message_id"`
		}
	}
	if err := json.Unmarshal(receiver.Calls()[bounced][0].Body, &told); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", told) != "{Type:message.bounced Subject:m1 Timestamp:2026-01-02T03:04:10Z Change:{Status:bounced Previous:sent Changed:true} Data:{MessageID:m1}}" {
		t.Errorf("it is told %+v", told)
	}
	register(s, "m2") // and its event has its effect
	s.AwaitInt(time.Minute, 3, performedCount)
	want["mail:opens:m2%7Cmessage%2Eopened%7C1767323070%7Ca@example%2Eorg"] = 1
	expectCalls(t, receiver, want)
}

func TestADurableForwarder(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	receiver.Down()
	s := harness.New(t)
	s.Configure(fmt.Sprintf(`sources:
  code:
    preset: github
    secrets: [{env: ANSWERLINE_SECRET}]
    effects:
      - {name: app, http: {url: '%s/github', secret: {env: EFFECT_SECRET}, body: raw}, retry_base: 50ms, retry_max: 500ms, max_attempts: 1000}
`, receiver.URL))
	ingress := s.StartService("ingress")
	s.StartService("processor", "CATCHWATER_SCAN_INTERVAL=100ms")
	bodies := map[string]string{
		"plain": `{"action":"opened"}`, "spaces": "{ \"a\" :\t1.50,\r\n\"a\": 2 }\n", "nul": `{"a":"\u0000\ud800"}`, "not JSON": "\x00\xff\x1f payload=%7B%7D",
	}
	for id, body := range bodies {
		mac := hmac.New(sha256.New, []byte(harness.Secret))
		mac.Write([]byte(body))
		status, err := harness.Send(ingress.Addr, "/hooks/code", []byte(body), map[string]string{
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-GitHub-Delivery": id, "X-GitHub-Event": "issues",
			"Content-Type": "application/x-" + strings.ReplaceAll(id, " ", "-"),
		})
		if err != nil || status != http.StatusNoContent {
			t.Fatalf("%s: answered %d, %v", id, status, err)
		}
	}
	s.AwaitInt(time.Minute, 4, processedCount)
	receiver.Up()
	s.AwaitInt(time.Minute, 4, performedCount)
	calls := receiver.Calls()
	for id, body := range bodies {
		made := calls["code:app:"+strings.ReplaceAll(id, " ", "%20")]
		if len(made) != 1 {
			t.Errorf("%s was handed on %d times", id, len(made))
			continue
		}
		if got := made[0]; string(got.Body) != body || got.Header.Get("Content-Type") != "application/x-"+strings.ReplaceAll(id, " ", "-") || got.Header.Get("X-GitHub-Event") != "issues" {
			t.Errorf("%s was handed on as %q, %v", id, got.Body, got.Header)
		}
	}
}

func TestEffectsOfAnswers(t *testing.T) {
	t.Parallel()
	receiver := harness.NewReceiver(t)
	s := harness.New(t)
	s.Configure("sources:\n  answers:\n    preset: answerline\n    secrets: [{env: ANSWERLINE_SECRET}]\n    " + effect(receiver, "done", ", on: change, statuses: [COMPLETED]") + "\n")
	ingress := s.StartService("ingress")
	s.StartService("processor")
	for n := range 20 {
		id := fmt.Sprintf("t%d", n)
		status := map[bool]string{true: "COMPLETED", false: "FAILED"}[n%2 == 0]
		for range 2 {
			expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task(id, id, status, "2026-01-02T03:04:05Z"), harness.Secret), http.StatusNoContent)
		}
	}
	s.AwaitInt(time.Minute, 20, processedCount)
	s.AwaitInt(time.Minute, 10, performedCount)
	want := make(map[string]int)
	for n := 0; n < 20; n += 2 {
		want[fmt.Sprintf("answers:done:t%d", n)] = 1
	}
	expectCalls(t, receiver, want)
}

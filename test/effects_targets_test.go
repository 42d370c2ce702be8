package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/catchwater/catchwater/test/harness"
)

func TestEffectsOnTheBroker(t *testing.T) {
	t.Parallel()
	s, ingress := mailSystem(t, "messages: {create: true}", `effects:
      - {name: stored, nats: {subject: crm.mail}, retry_base: 50ms, retry_max: 500ms, max_attempts: 1000}
      - {name: told, nats: {subject: told.mail, confirm: server, body: raw}, retry_base: 50ms, retry_max: 500ms, max_attempts: 1000}`)
	conn, err := nats.Connect(s.NATSURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told, err := conn.SubscribeSync("told.>")
	if err != nil || conn.Flush() != nil {
		t.Fatal(err)
	}
	s.StartService("processor", "CATCHWATER_SCAN_INTERVAL=100ms")
	h := harness.Happening{Message: "m1", Event: "bounced", At: 1767323050}
	happened(t, ingress, h)
	const key = ":m1%7Cmessage%2Ebounced%7C1767323050%7Ca@example%2Eorg"

	msg, err := told.NextMsg(time.Minute)
	if err != nil || string(msg.Data) != string(h.Body()) || msg.Header.Get("Idempotency-Key") != "mail:told"+key {
		t.Errorf("the subscriber got %+v, %v", msg, err)
	}
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where name = 'told' and state = 'performed'")
	// The stream is not there yet.
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where name = 'stored' and state = 'pending' and last_error like '%no stream has this subject%'")
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "CRM", Subjects: []string{"crm.>"}})
	if err != nil {
		t.Fatal(err)
	}
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where name = 'stored' and state = 'performed'")
	stored, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var event struct{ Type, Subject string }
	if err := json.Unmarshal(stored.Data, &event); err != nil || event.Type != "message.bounced" || event.Subject != "m1" ||
		stored.Header.Get(nats.MsgIdHdr) != "mail:stored"+key || stored.Header.Get("Idempotency-Key") != "mail:stored"+key {
		t.Errorf("the stream has %s, %v, %v", stored.Data, stored.Header, err)
	}

	// A call that is repeated, as after a crash, is one message to the stream.
	s.Exec("update effects set state = 'pending', next_attempt_at = now(), performed_at = null where name = 'stored'")
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where name = 'stored' and state = 'performed'")
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 1 {
		t.Errorf("the stream has %+v, %v", info.State, err)
	}

	// What the server does not take, however often it is tried, is given up at once.
	large := fmt.Appendf(nil, `{"event":"message.opened","timestamp":1767323052,"message_id":"m1","to":"a@example.org","note":"%s"}`, strings.Repeat("x", 1<<20-200))
	if status, err := harness.PostKoltrix(ingress.Addr, "/hooks/mail", large, harness.Secret); err != nil || status != http.StatusNoContent {
		t.Fatalf("the large delivery: %d, %v", status, err)
	}
	s.AwaitInt(time.Minute, 1, `select count(*) from effects where name = 'stored' and state = 'given_up' and attempts = 1
		and last_error ~ 'the body has 10486\d\d bytes, and the server takes 1048576 with the headers: .*; raise max_payload of the NATS server, or .*body: raw'`)
	s.AwaitInt(time.Minute, 1, "select count(*) from effects where name = 'told' and state = 'given_up' and attempts = 1 and last_error like '%raise max_payload of the NATS server'")

	// Without a broker they wait, and are performed when it is back.
	s.NATS.Kill()
	happened(t, ingress, harness.Happening{Message: "m1", Event: "complained", At: 1767323051})
	s.AwaitInt(time.Minute, 2, "select count(*) from effects where state = 'pending' and last_error like '%not connected%'")
	s.NATS.Start()
	s.AwaitInt(time.Minute, 4, performedCount)
}

func TestAMessageToAChat(t *testing.T) {
	t.Parallel()
	said := make(chan string, 10)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(chat.Close)
	s, ingress := mailSystem(t, "messages: {create: true}", `effects: [{name: chat, slack: {url: {env: CHAT_URL}, text: "{subject} is now {status}"}}]`)
	s.StartService("processor", "CHAT_URL="+chat.URL+"/services/T0")
	happened(t, ingress, harness.Happening{Message: "<m1>", Event: "bounced", At: 1767323050})
	s.AwaitInt(time.Minute, 1, performedCount)
	if got := <-said; got != `/services/T0 {"text":"\u0026lt;m1\u0026gt; is now bounced"}` {
		t.Errorf("the chat got %s", got)
	}
}

// example builds the documentation's program with handlers of its own.
func example(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handlers")
	build := exec.Command("go", "build", "-o", path, "./handlers")
	build.Dir = filepath.Join("..", "docs", "examples")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	return path
}

func TestAGoProgramWithHandlersOfItsOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	greeted := make(map[string][]string) // by key
	greetings := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		greeted[key] = append(greeted[key], string(body))
		if len(greeted[key]) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(greetings.Close)
	s := harness.New(t)
	s.Exec("create table ledger (subject text primary key, status text)")
	s.Exec("grant insert on ledger to catchwater_processor")
	config, err := os.ReadFile(filepath.Join("..", "docs", "effects.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, documented, _ := strings.Cut(string(config), "## Go handlers")
	_, documented, _ = strings.Cut(documented, "```yaml\n")
	documented, _, _ = strings.Cut(documented, "```")
	s.Configure(strings.ReplaceAll(documented, "handler: greet}", "handler: greet, retry_base: 50ms}"))
	ingress := s.StartService("ingress")

	// The processor as it is shipped does not have them, and says so.
	shipped := s.LaunchService("processor")
	<-shipped.Done()
	if log := shipped.Log(); !strings.Contains(log, `handler "ledger" is not in this program`) {
		t.Errorf("without the handlers: %s", log)
	}
	s.LaunchProgram("processor", example(t), "GREETINGS_URL="+greetings.URL, "CATCHWATER_SCAN_INTERVAL=50ms").AwaitReady()
	for n := range 10 {
		id, status := fmt.Sprintf("t%d", n), "COMPLETED"
		if n == 9 {
			status = "FAILED"
		}
		expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task(id, id, status, "2026-01-02T03:04:05Z"), harness.Secret), http.StatusNoContent)
	}
	s.AwaitInt(time.Minute, 10, processedCount)
	if n := s.Int("select count(*) from ledger where status = 'COMPLETED'"); n != 9 {
		t.Errorf("the ledger has %d lines, want 9", n)
	}
	s.AwaitInt(time.Minute, 9, performedCount)
	mu.Lock()
	defer mu.Unlock()
	for n := range 9 {
		key := fmt.Sprintf("answers:greet:t%d", n)
		if got := strings.Join(greeted[key], ", "); got != fmt.Sprintf("hello t%d, hello t%d", n, n) {
			t.Errorf("%s: %q", key, got)
		}
	}

	// A handler that fails keeps its event alone from being processed.
	s.Exec("insert into ledger values ('taken', 'before')")
	for _, id := range []string{"taken", "free"} {
		expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task(id, id, "COMPLETED", "2026-01-02T03:04:05Z"), harness.Secret), http.StatusNoContent)
	}
	s.AwaitInt(time.Minute, 1, "select count(*) from inbox where event_key = 'free' and state = 'processed'")
	s.AwaitInt(time.Minute, 1, "select count(*) from inbox where event_key = 'taken' and state = 'pending' and last_error like 'handler ledger: %duplicate key%'")
	if n := s.Int("select count(*) from answers where task_id = 'taken'"); n != 0 {
		t.Error("the answer was stored without its line in the ledger")
	}
}

package tracing

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/test/harness"
)

const config = `sources:
  answers:
    preset: answerline
    secrets: [{env: ANSWERLINE_SECRET}]
    reconcile: {base_url: %[1]q, token: {env: ANSWERLINE_API_KEY}, after: 1s}
    effects:
      - {name: told, statuses: [COMPLETED], http: {url: %[2]q, secret: {env: EFFECT_SECRET}}}
`

// marker stands in everything that no span may hold.
const marker = "not-for-traces"

const effectSecret = "whsec_c2VjcmV0LW9mLXRoZS1yZWNlaXZlcg=="

// system is Catchwater with Jaeger, a provider that knows what it is told, and a
// receiver of effects.
type system struct {
	*harness.System
	jaeger   *jaeger
	ingress  *harness.Service
	provider atomic.Pointer[string] // the body of the next answers
	called   atomic.Pointer[string] // the traceparent of the receiver's last call
}

func start(t *testing.T, services ...string) *system {
	t.Helper()
	s := &system{System: harness.New(t)}
	s.jaeger = startJaeger(s.System)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if body := s.provider.Load(); body != nil {
			_, _ = io.WriteString(w, *body)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(provider.Close)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text := r.Header.Get("Traceparent")
		s.called.Store(&text)
	}))
	t.Cleanup(receiver.Close)
	s.Configure(fmt.Sprintf(config, provider.URL, receiver.URL))
	for _, name := range services {
		service := s.StartService(name, s.env()...)
		switch name {
		case "ingress":
			s.ingress = service
		case "processor":
			service.AwaitDoorbell(1)
		}
	}
	return s
}

// env leaves rows to the doorbell for so long that no scan is faster, however
// busy the machine.
func (s *system) env() []string {
	return append(s.jaeger.env(), "EFFECT_SECRET="+effectSecret, "CATCHWATER_SCAN_INTERVAL=200ms", "CATCHWATER_GRACE=2m")
}

// deliver sends a task's result whose body and headers hold what no span may.
func (s *system) deliver(id, status string, header map[string]string) {
	s.T.Helper()
	body := harness.Task(id, marker+"-"+id, status, "2026-01-02T03:04:05Z")
	headers := map[string]string{"Webhook-Signature": delivery.Sign([]string{harness.Secret}, time.Now(), body), "Authorization": marker}
	for name, value := range header {
		headers[name] = value
	}
	if got, err := harness.Send(s.ingress.Addr, "/hooks/answers?token="+marker, body, headers); err != nil || got != http.StatusNoContent {
		s.T.Fatalf("answered %d, %v", got, err)
	}
}

const delivered = `ingress: POST /hooks/{source}
  ingress: publish catchwater.inbox.answers
    processor: process catchwater.inbox.answers
      processor: claim
      processor: commit
      processor: perform told
      processor: project
  ingress: read
  ingress: store
    ingress: insert
  ingress: verify
`

// TestADeliveryIsOneTrace finds a delivery by its task's id, and the whole story
// below one span.
func TestADeliveryIsOneTrace(t *testing.T) {
	t.Parallel()
	s := start(t, "ingress", "processor")
	s.deliver("t1", "COMPLETED", nil)
	trace := s.jaeger.await("catchwater-ingress", "t1", delivered)
	for operation, want := range map[string]map[string]string{
		"POST /hooks/{source}": {"catchwater.source": "answers", "catchwater.event_key": "t1", "catchwater.outcome": "stored", "span.kind": "server",
			"http.response.status_code": "204", "http.route": "/hooks/{source}"},
		"publish catchwater.inbox.answers": {"span.kind": "producer", "messaging.system": "nats", "messaging.destination.name": "catchwater.inbox.answers",
			"messaging.operation.name": "publish", "messaging.operation.type": "send"},
		"process catchwater.inbox.answers": {"span.kind": "consumer", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"catchwater.source": "answers", "catchwater.event_key": "t1", "catchwater.outcome": "processed", "catchwater.via": "doorbell", "catchwater.attempt": "1"},
		"perform told": {"span.kind": "client", "catchwater.effect": "told", "catchwater.event_key": "t1"},
	} {
		span := trace.span(t, operation)
		for key, value := range want {
			if got := span.tag(key); got != value {
				t.Errorf("%s: %s is %q, want %q", operation, key, got, value)
			}
		}
	}
	// The batches have traces of their own, and the two lead to each other.
	for _, c := range []struct{ operation, batch, service string }{
		{"insert", "insert inbox", "catchwater-ingress"}, {"process catchwater.inbox.answers", "process catchwater.inbox", "catchwater-processor"},
	} {
		links := trace.span(t, c.operation).links(trace.ID)
		if len(links) != 1 {
			t.Fatalf("%s leads to %d other traces", c.operation, len(links))
		}
		batches, _ := s.jaeger.get("/api/traces/" + links[0])
		if len(batches) != 1 || !slices.Contains(batches[0].span(t, c.batch).links(batches[0].ID), trace.ID) {
			t.Errorf("%s does not lead back", c.batch)
		}
	}
	// Where the time went: each part lies within what it is a part of.
	root := trace.span(t, "POST /hooks/{source}")
	for _, part := range []string{"read", "verify", "store", "insert"} {
		if span := trace.span(t, part); span.Start < root.Start || span.Start+span.Duration > root.Start+root.Duration+1000 {
			t.Errorf("%s (%d+%d) is not within its request (%d+%d)", part, span.Start, span.Duration, root.Start, root.Duration)
		}
	}
	if called := s.called.Load(); called == nil || !strings.Contains(*called, trace.ID+"-"+trace.span(t, "perform told").ID) {
		t.Errorf("the receiver was told of %v, not of the call's span", called)
	}
	var log struct {
		TraceID string `json:"trace_id"`
	}
	for line := range strings.Lines(s.ingress.Log()) {
		if strings.Contains(line, `"msg":"delivery"`) {
			if err := json.Unmarshal([]byte(line), &log); err != nil {
				t.Fatal(err)
			}
		}
	}
	if log.TraceID != trace.ID {
		t.Errorf("the log names trace %s, not %s", log.TraceID, trace.ID)
	}
	s.assertNothingIsTold()
}

// TestTheSendersTraceGoesOn has a sender that traces itself.
func TestTheSendersTraceGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, "ingress", "processor")
	const sender = "0af7651916cd43dd8448eb211c80319c"
	s.deliver("t1", "COMPLETED", map[string]string{"Traceparent": "00-" + sender + "-b7ad6b7169203331-01"})
	harness.Await(t, 2*time.Minute, "the sender's trace to have the call of the effect", func() error {
		traces := s.jaeger.find("catchwater-processor", "catchwater.event_key", "t1")
		if len(traces) != 1 || traces[0].ID != sender || !strings.Contains(traces[0].tree(), "perform told") {
			return fmt.Errorf("there are %d", len(traces))
		}
		return nil
	})
}

// TestALostMessageLeavesTheTraceWhole stops the broker: nobody tells of the row,
// and a scan finds it.
func TestALostMessageLeavesTheTraceWhole(t *testing.T) {
	t.Parallel()
	s := start(t, "ingress")
	s.NATS.Kill()
	harness.Await(t, 30*time.Second, "the ingress to have lost the broker", func() error {
		if !strings.Contains(s.ingress.Log(), "broker") {
			return fmt.Errorf("its log does not say so")
		}
		return nil
	})
	s.deliver("t1", "COMPLETED", nil)
	s.StartService("processor", s.env()...)
	trace := s.jaeger.await("catchwater-ingress", "t1", `ingress: POST /hooks/{source}
  ingress: publish catchwater.inbox.answers FAILED
  ingress: read
  ingress: store
    ingress: insert
  ingress: verify
  processor: process catchwater.inbox.answers
    processor: claim
    processor: commit
    processor: perform told
    processor: project
`)
	if via := trace.span(t, "process catchwater.inbox.answers").tag("catchwater.via"); via != "scan" {
		t.Errorf("it came by %s", via)
	}
}

// TestAPolledResultIsOneTrace follows a result that only asking brought.
func TestAPolledResultIsOneTrace(t *testing.T) {
	t.Parallel()
	s := start(t, "ingress", "processor", "reconciler")
	body := string(harness.Task("t1", marker, "COMPLETED", "2026-01-02T03:04:05Z"))
	s.provider.Store(&body)
	s.Exec("insert into submitted_tasks (source, task_id, created_at) values ('answers', 't1', now() - interval '1 minute')")
	s.jaeger.await("catchwater-reconciler", "t1", `reconciler: hand out
  reconciler: publish catchwater.poll.answers
    reconciler: process catchwater.poll.answers
      reconciler: ask the provider
      reconciler: publish catchwater.inbox.answers
        processor: process catchwater.inbox.answers
          processor: claim
          processor: commit
          processor: perform told
          processor: project
`)
	s.assertNothingIsTold()
}

// TestFailuresMarkTheirSpans has a row that the database refuses, a delivery that
// is rejected, and one that cannot be stored.
func TestFailuresMarkTheirSpans(t *testing.T) {
	t.Parallel()
	s := start(t, "ingress", "processor")
	s.Exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception '` + marker + `'; end $$`)
	s.Exec("create trigger refuse before insert on answers for each row when (new.task_id = 'bad') execute function refuse()")
	s.deliver("bad", "COMPLETED", nil)
	trace := s.jaeger.await("catchwater-ingress", "bad", strings.ReplaceAll(strings.ReplaceAll(delivered,
		"process catchwater.inbox.answers", "process catchwater.inbox.answers FAILED"), "      processor: perform told\n", ""))
	span := trace.span(t, "process catchwater.inbox.answers")
	if span.tag("catchwater.outcome") != "failed" || span.tag("error.type") != "SQLSTATE P0001" {
		t.Errorf("the row's span says %s, %s", span.tag("catchwater.outcome"), span.tag("error.type"))
	}
	status, err := harness.Send(s.ingress.Addr, "/hooks/answers", []byte(marker), map[string]string{"Webhook-Signature": "t=1,v1=" + marker})
	if err != nil || status != http.StatusBadRequest {
		t.Fatalf("answered %d, %v", status, err)
	}
	harness.Await(t, 2*time.Minute, "the rejection's trace", func() error {
		rejected := s.jaeger.find("catchwater-ingress", "catchwater.outcome", "rejected_malformed")
		if want := "ingress: POST /hooks/{source}\n  ingress: read\n  ingress: verify FAILED\n"; len(rejected) != 1 || rejected[0].tree() != want {
			return fmt.Errorf("there are %d", len(rejected))
		}
		return nil
	})
	s.assertNothingIsTold()
}

// TestOnlyAShareIsRecorded turns sampling off, and has one sender that insists.
func TestOnlyAShareIsRecorded(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	j := startJaeger(s)
	env := append(j.env(), "CATCHWATER_TRACE_SAMPLE_RATIO=0")
	all := &system{System: s, jaeger: j, ingress: s.StartService("ingress", env...)}
	s.StartService("processor", env...)
	all.deliver("unseen", "COMPLETED", nil)
	all.deliver("seen", "COMPLETED", map[string]string{"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	harness.Await(t, 2*time.Minute, "the sender's trace to be there", func() error {
		if n := len(j.find("catchwater-processor", "catchwater.event_key", "seen")); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	if traces := j.find("catchwater-ingress", "catchwater.event_key", "unseen"); len(traces) != 0 {
		t.Errorf("%d traces were recorded that were not to be", len(traces))
	}
}

// assertNothingIsTold looks for bodies, headers, queries and secrets in all that
// Jaeger knows.
func (s *system) assertNothingIsTold() {
	s.T.Helper()
	for _, service := range []string{"catchwater-ingress", "catchwater-processor", "catchwater-reconciler"} {
		traces, text := s.jaeger.get("/api/traces?limit=1000&service=" + service)
		if len(traces) == 0 {
			continue
		}
		for _, secret := range []string{marker, harness.Secret, "sim-key", "for-tests-only", effectSecret} {
			if at := strings.Index(text, secret); at >= 0 {
				s.T.Errorf("%s tells %q: …%s…", service, secret, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

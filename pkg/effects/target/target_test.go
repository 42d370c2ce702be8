package target_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/signature"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

const (
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// request is what a receiver got.
type request struct {
	http.Header
	body string
}

// receiver is a real HTTP server that answers as it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []request
	answer func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		r.mu.Lock()
		r.got = append(r.got, request{in.Header, string(body)})
		answer := r.answer
		r.mu.Unlock()
		answer(w, in)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// open opens the target of the effect that a line of a sources file describes.
func open(t *testing.T, line string, o target.Options) (target.Target, error) {
	t.Helper()
	config, err := source.Parse("f.yaml", []byte("sources:\n  mail:\n    preset: koltrix\n    secrets: [{env: A}]\n    effects:\n      - "+line+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	o.Log, o.Transport, o.SecretInterval = slog.New(slog.DiscardHandler), http.DefaultTransport, 5*time.Millisecond
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return target.Open(config.Sources[0], config.Sources[0].Effects[0], o)
}

func mustOpen(t *testing.T, line string, o target.Options) target.Target {
	t.Helper()
	opened, err := open(t, line, o)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func aCall() *effects.Call {
	return &effects.Call{Name: "crm", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Attempt: 1, Event: effects.Event{
		Source: "mail", EventKey: "m1|message.bounced", Type: "message.bounced", Subject: "<m1> & co", OccurredAt: time.Unix(1_700_000_000, 0),
		Body: []byte(`{ "event" : "message.bounced" }`), Headers: map[string]string{"Content-Type": "application/json; charset=utf-8", "X-Koltrix-Event": "e", "User-Agent": "koltrix", "Webhook-Id": "theirs"},
		Change: effects.Change{Status: "bounced", Previous: "sent", Changed: true},
	}}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verifies says whether a request verifies with a secret, as a receiver that
// knows Standard Webhooks would find.
func verifies(t *testing.T, r request, secret string) bool {
	t.Helper()
	verifier, err := signature.Scheme{
		Header: "Webhook-Signature", Form: signature.FormVersioned, SignatureKeys: []string{"v1"}, TimestampHeader: "Webhook-Timestamp",
		IDHeader: "Webhook-Id", Signed: "{id}.{t}.{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Base64,
		KeyForm: signature.Base64, KeyPrefix: "whsec_", Tolerance: 5 * time.Minute,
	}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key, err := verifier.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.Verify(r.Header, []byte(r.body), []signature.Key{key}, time.Now()) == nil
}

func TestAnHTTPCall(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	path := secretFile(t, oldSecret+"\n"+newSecret+"\n")
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"', secret: {file: '"+path+"'}, headers: {X-Team: crm, Authorization: {env: T}}}}",
		target.Options{Getenv: func(string) string { return "Bearer token" }})
	call := aCall()
	for range 2 {
		if err := to.Perform(tracing.WithTraceparent(t.Context(), call.Traceparent), call); err != nil {
			t.Fatal(err)
		}
	}
	got := r.requests()
	want, err := call.JSON()
	if err != nil || got[0].body != string(want) || got[1].body != got[0].body {
		t.Errorf("the bodies are %s and %s, want %s", got[0].body, got[1].body, want)
	}
	for name, want := range map[string]string{
		"Webhook-Id": call.Key(), "Idempotency-Key": call.Key(), "Content-Type": "application/json", "X-Team": "crm",
		"Authorization": "Bearer token", "User-Agent": "Catchwater", "Traceparent": call.Traceparent,
	} {
		if got[0].Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got[0].Get(name), want)
		}
	}
	if !verifies(t, got[0], oldSecret) || !verifies(t, got[0], newSecret) {
		t.Errorf("it does not verify with both secrets: %v", got[0].Header)
	}
}

func TestARawCallIsTheDeliveryItself(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"', secret: {env: S}, body: raw}}", target.Options{Getenv: func(string) string { return oldSecret }})
	call := aCall()
	call.Headers["Content-Encoding"] = "gzip" // which the ingress has undone
	notHandedOn := []string{"Authorization", "Cookie", "User-Agent", "Host", "Connection", "Content-Encoding"}
	for _, name := range notHandedOn[:5] {
		call.Headers[name] = "hunter2"
	}
	packed := aCall()
	packed.Body = []byte("\x1f\x8bpacked")
	for _, c := range []*effects.Call{call, packed} {
		if err := to.Perform(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	got := r.requests()
	if got[0].body != string(call.Body) || got[0].Get("Content-Type") != "application/json; charset=utf-8" || got[0].Get("X-Koltrix-Event") != "e" ||
		got[0].Get("Content-Encoding") != "" || got[0].Get("Webhook-Id") != call.Key() || !verifies(t, got[0], oldSecret) {
		t.Errorf("got %+v", got[0])
	}
	page, err := os.ReadFile("../../../docs/effects.md")
	if err != nil {
		t.Fatal(err)
	}
	_, told, _ := strings.Cut(string(page), "Of the kept headers ")
	told, _, _ = strings.Cut(told, " are not handed on")
	for _, name := range notHandedOn {
		if got[0].Get(name) == "hunter2" || !strings.Contains(told, "`"+name+"`") {
			t.Errorf("%s: the receiver got %q, and the page says that these are not handed on: %s", name, got[0].Get(name), told)
		}
	}
	if got[1].body != string(packed.Body) || got[1].Get("Content-Encoding") != "gzip" {
		t.Errorf("compressed bytes: %+v", got[1])
	}
	gone := aCall()
	gone.Body, gone.NoBody = nil, true
	var permanent *inbox.PermanentError
	if err := to.Perform(t.Context(), gone); !errors.As(err, &permanent) {
		t.Errorf("without a payload: %v", err)
	}
}

func TestASecretThatIsReplacedInItsFile(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	path := secretFile(t, oldSecret)
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"', secret: {file: '"+path+"'}}}", target.Options{})
	watched, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { to.Watch(watched) })
	defer watching.Wait()
	defer stop()
	if err := os.WriteFile(path, []byte(newSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := to.Perform(t.Context(), aCall()); err != nil {
			t.Fatal(err)
		}
		got := r.requests()
		if verifies(t, got[len(got)-1], newSecret) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("calls are still signed with the former secret")
		}
	}
}

func TestAnswersThatAreNoSuccess(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"/here', secret: {env: S}}}", target.Options{Getenv: func(string) string { return oldSecret }})
	for status, refused := range map[int]bool{
		301: true, 307: true, 400: true, 401: true, 404: true, 408: false, 409: false, 410: true, 422: true, 425: false, 429: false, 500: false, 503: false,
	} {
		r.mu.Lock()
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", r.URL+"/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprintf(w, "not\nnow %s", strings.Repeat("x", 1000))
		}
		r.mu.Unlock()
		before := len(r.requests())
		var answer *target.Error
		err := to.Perform(t.Context(), aCall())
		if !errors.As(err, &answer) || answer.Refused != refused || answer.RetryAfter != 7*time.Second ||
			!strings.HasPrefix(answer.Text, fmt.Sprintf("the answer is %d", status)) || !strings.Contains(answer.Text, "not now xxx") || len(answer.Text) > 400 {
			t.Errorf("%d: %+v", status, err)
		}
		if made := len(r.requests()) - before; made != 1 {
			t.Errorf("%d: %d calls were made", status, made)
		}
	}
}

// TestNobodyRepeatsACallButTheOneThatCounts has a receiver take a call on a kept
// connection and hang up: the transport would send it again by itself.
func TestNobodyRepeatsACallButTheOneThatCounts(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"/secret-path', secret: {env: S}}}", target.Options{Getenv: func(string) string { return oldSecret }})
	if err := to.Perform(t.Context(), aCall()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.answer = func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	r.mu.Unlock()
	if err := to.Perform(t.Context(), aCall()); err == nil || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("got %v, want an error without the URL", err)
	}
	if n := len(r.requests()); n != 2 {
		t.Errorf("%d calls were made, want the two", n)
	}
}

func TestACallThatIsNotAnsweredInTime(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.answer = func(_ http.ResponseWriter, in *http.Request) { <-in.Context().Done() }
	to := mustOpen(t, "{name: crm, http: {url: '"+r.URL+"', secret: {env: S}}}", target.Options{Getenv: func(string) string { return oldSecret }})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("none came within 50ms"))
	defer cancel()
	if err := to.Perform(ctx, aCall()); err == nil || err.Error() != "no answer: none came within 50ms" {
		t.Errorf("got %v", err)
	}
}

func TestAMessageToSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	path := secretFile(t, r.URL+"/services/hunter2\n")
	to := mustOpen(t, "{name: crm, slack: {url: {file: '"+path+"'}, text: '*{subject}* is now {status}, was {previous} ({type}, {source}, {event_key}, {time})'}}", target.Options{})
	if err := to.Perform(t.Context(), aCall()); err != nil {
		t.Fatal(err)
	}
	const want = `{"text":"*\u0026lt;m1\u0026gt; \u0026amp; co* is now bounced, was sent (message.bounced, mail, m1|message.bounced, 2023-11-14T22:13:20Z)"}`
	if got := r.requests()[0]; got.body != want || got.Get("Content-Type") != "application/json" {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	r.Close()
	if err := to.Perform(t.Context(), aCall()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the URL", err)
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	none := target.Options{Getenv: func(name string) string { return map[string]string{"URL": "hunter2", "S": oldSecret}[name] }}
	for line, want := range map[string]string{
		"{name: crm, http: {url: 'http://h', secret: {env: X}}}":                                     `source "mail", effect "crm": environment variable X: it is not set, or empty`,
		"{name: crm, http: {url: 'http://h', secret: {env: S}, headers: {Authorization: {env: X}}}}": `source "mail", effect "crm": http.headers: Authorization: environment variable X: it is not set, or empty`,
		"{name: crm, slack: {url: {env: X}, text: a}}":                                               `source "mail", effect "crm": slack.url: environment variable X: it is not set, or empty`,
		"{name: crm, slack: {url: {env: URL}, text: a}}":                                             `source "mail", effect "crm": slack.url: environment variable URL: this is not an http or https URL`,
	} {
		if _, err := open(t, line, none); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

func TestAGoProgramsOwnHandler(t *testing.T) {
	t.Parallel()
	var seen string
	run := func(_ context.Context, e effects.Event, key string) error {
		seen = e.Subject + " " + key
		return errors.New("as it says")
	}
	to := mustOpen(t, "{name: crm, handler: own}", target.Options{Handlers: effects.Handlers{
		AfterCommit: map[string]func(context.Context, effects.Event, string) error{"own": run},
	}})
	if err := to.Perform(t.Context(), aCall()); err == nil || err.Error() != "as it says" || seen != "<m1> & co mail:crm:m1%7Cmessage%2Ebounced" {
		t.Errorf("got %v; the handler saw %q", err, seen)
	}
}

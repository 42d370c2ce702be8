package harness

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

// EffectSecret is what the calls of effects are signed with, in tests that name
// the environment variable EFFECT_SECRET as its place.
const EffectSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Received is a call that a Receiver was made.
type Received struct {
	Header http.Header
	Body   []byte
	At     time.Time // when it began
}

// Receiver is an application's endpoint for effects. It counts calls by their
// idempotency key, verifies each, and answers 200 unless it is told otherwise.
type Receiver struct {
	URL string

	t        testing.TB
	addr     string
	server   *httptest.Server
	verifier *signature.Verifier
	keys     []signature.Key

	mu     sync.Mutex
	cond   *sync.Cond
	calls  map[string][]Received
	status int
	held   bool
}

// NewReceiver starts a receiver.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t, calls: make(map[string][]Received), status: http.StatusOK}
	r.cond = sync.NewCond(&r.mu)
	verifier, err := endpoint.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key, err := verifier.ParseKey(EffectSecret)
	if err != nil {
		t.Fatal(err)
	}
	r.verifier, r.keys = verifier, []signature.Key{key}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = listener.Addr().String()
	r.URL = "http://" + r.addr
	r.serve(listener)
	t.Cleanup(func() {
		r.Release()
		r.Down()
	})
	return r
}

func (r *Receiver) serve(listener net.Listener) {
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.receive))
	_ = r.server.Listener.Close()
	r.server.Listener = listener
	r.server.Start()
}

// Down makes nobody listen, until Up.
func (r *Receiver) Down() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// Up listens again at the same address.
func (r *Receiver) Up() {
	r.t.Helper()
	listener, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve(listener)
}

// Answer makes it answer with a status from now on.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Hold keeps answers back until Release. Calls are taken.
func (r *Receiver) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

// Release lets answers go, those held back too.
func (r *Receiver) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	r.cond.Broadcast()
}

// Calls returns the calls that were made, by their keys.
func (r *Receiver) Calls() map[string][]Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make(map[string][]Received, len(r.calls))
	for key, made := range r.calls {
		calls[key] = append([]Received(nil), made...)
	}
	return calls
}

// Keys returns how many different keys calls were made with.
func (r *Receiver) Keys() int { return len(r.Calls()) }

// Count returns how many calls were made.
func (r *Receiver) Count() int {
	count := 0
	for _, made := range r.Calls() {
		count += len(made)
	}
	return count
}

// endpoint verifies calls as Standard Webhooks says.
var endpoint = signature.Scheme{
	Header: "Webhook-Signature", Form: signature.FormVersioned, SignatureKeys: []string{"v1"}, TimestampHeader: "Webhook-Timestamp",
	IDHeader: "Webhook-Id", Signed: "{id}.{t}.{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Base64,
	KeyForm: signature.Base64, KeyPrefix: "whsec_", Tolerance: 5 * time.Minute,
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // whoever called is gone, before the call was made
	}
	r.verify(request.Header, body)
	key := request.Header.Get("Idempotency-Key")
	r.mu.Lock()
	r.calls[key] = append(r.calls[key], Received{Header: request.Header, Body: body, At: began})
	for r.held {
		r.cond.Wait()
	}
	status := r.status
	r.mu.Unlock()
	w.WriteHeader(status)
}

func (r *Receiver) verify(header http.Header, body []byte) {
	if err := r.verifier.Verify(header, body, r.keys, time.Now()); err != nil {
		r.t.Errorf("a call does not verify: %v", err)
	}
	if header.Get("Webhook-Id") == "" || header.Get("Webhook-Id") != header.Get("Idempotency-Key") {
		r.t.Errorf("a call's id is %q, and its key %q", header.Get("Webhook-Id"), header.Get("Idempotency-Key"))
	}
}

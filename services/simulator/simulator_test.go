package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

const (
	testSecret    = "whsec_0123456789abcdef"
	koltrixSecret = "koltrix-0123456789abcdef"
)

// usualConfig is the command line's defaults, with faster lives.
func usualConfig() Config {
	return Config{
		Listen: "127.0.0.1:0", HealthListen: "127.0.0.1:0", Secrets: []string{testSecret}, APIKey: "sim-key", TimeScale: 1000,
		QueueFor: 2 * time.Second, RunFor: 3 * time.Second, Keep: 100_000 * time.Hour, ResultBytes: 1700, Senders: 64,
		AttemptTimeout: 15 * time.Second, PrivateTargets: true, RedeliverLimit: 100, MaxLog: 250_000, Seed: 1,
		Koltrix: Koltrix{Secrets: []string{koltrixSecret}, APIKey: "sim-key", Step: 2 * time.Second, AttemptTimeout: 8 * time.Second},
		Logger:  slog.New(slog.DiscardHandler),
	}
}

// receiver is a webhook receiver that verifies with the product's own code.
type receiver struct {
	*httptest.Server
	status atomic.Int64 // what it answers; 204 when 0

	verify *signature.Verifier
	mu     sync.Mutex
	keys   []signature.Key
	bodies map[string][]string // by Webhook-Id, which Koltrix has none of
	faulty int                 // with a signature that is not right
}

// newReceiver returns one of Answerline's results.
func newReceiver(t testing.TB) *receiver {
	t.Helper()
	return newReceiverOf(t, testSecret, signature.Scheme{
		Header: "Webhook-Signature", Form: signature.FormPairs, SignatureKeys: []string{"v1"}, TimestampKey: "t", TimestampUnit: signature.Seconds,
		Signed: "{t}.{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex, KeyForm: signature.Verbatim, Tolerance: 5 * time.Minute,
	})
}

func newReceiverOf(t testing.TB, secret string, scheme signature.Scheme) *receiver {
	t.Helper()
	verifier, err := scheme.Compile()
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{verify: verifier, bodies: make(map[string][]string)}
	r.accept(t, secret)
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// accept sets the secrets.
func (r *receiver) accept(t testing.TB, secrets ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = nil
	for _, secret := range secrets {
		key, err := r.verify.ParseKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		r.keys = append(r.keys, key)
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.verify.Verify(request.Header, body, r.keys, time.Now()) != nil {
		r.faulty++
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := request.Header.Get("Webhook-Id")
	r.bodies[id] = append(r.bodies[id], string(body))
	status := int(r.status.Load())
	if status == 0 {
		status = http.StatusNoContent
	}
	w.WriteHeader(status)
}

// got is the bodies that came under a Webhook-Id.
func (r *receiver) got(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[id]
}

func (r *receiver) counts() (ids, requests, faulty int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, bodies := range r.bodies {
		requests += len(bodies)
	}
	return len(r.bodies), requests, r.faulty
}

// driver drives the providers over HTTP.
type driver struct {
	t    testing.TB
	base string
}

// start runs providers that deliver to a receiver, until the test ends.
func start(t testing.TB, change func(*Config)) driver {
	t.Helper()
	cfg := usualConfig()
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := newProviders(ctx, cfg)
	server := httptest.NewServer(p.handler())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	t.Cleanup(func() { cancel(); server.Close(); running.Wait() })
	return driver{t, server.URL}
}

// call makes a request whose answer must have a status, and decodes it into out.
func (d driver) call(want int, method, path, body string, out any) {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sim-key")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	if response.StatusCode != want {
		d.t.Fatalf("%s %s %s is answered %s %.500s, want %d", method, path, body, response.Status, data, want)
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
	} else if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			d.t.Fatalf("%s %s is answered %q: %v", method, path, data, err)
		}
	}
}

// report waits until nothing is pending.
func (d driver) report(query string) (r Report) {
	d.t.Helper()
	d.call(http.StatusOK, "GET", "/control/report?waitIdle=30s"+query, "", &r)
	return r
}

func TestATaskFromItsCreationToItsDelivery(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	var created struct{ Task struct{ ID string } }
	d.call(201, "POST", "/v1/async/task", `{"taskType":"answer","idempotencyKey":"job"}`, &created)
	d.call(409, "POST", "/v1/async/task", `{"taskType":"answer","idempotencyKey":"job"}`, nil)
	await(t, "delivery", func() bool { return d.report("").Deliveries.Delivered == 1 })
	var shown string
	d.call(200, "GET", "/v1/async/task/"+created.Task.ID, "", &shown)
	var log []struct{ ID string }
	d.call(200, "GET", "/control/deliveries?taskId="+created.Task.ID, "", &log)
	if len(log) != 1 {
		t.Fatalf("the log has %d deliveries of the task", len(log))
	}
	if got := r.got(log[0].ID); len(got) != 1 || got[0] != shown {
		t.Errorf("the API shows %q, delivered was %q", shown, got)
	}
	if _, _, faulty := r.counts(); faulty != 0 {
		t.Errorf("%d signatures are not right", faulty)
	}
}

func TestTasksOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL, c.Rate = r.URL, 500 })
	await(t, "delivery of 20 tasks", func() bool {
		var report Report
		d.call(200, "GET", "/control/report", "", &report)
		return report.Deliveries.Delivered >= 20
	})
}

// TestRun starts the whole service on ports of its own, and stops it.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	cfg := usualConfig()
	cfg.WebhookURL, cfg.Listen, cfg.HealthListen = r.URL, freeAddr(t), freeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	await(t, "readiness", func() bool { return get("http://"+cfg.HealthListen+"/readyz") == "ok\n" })

	d := driver{t, "http://" + cfg.Listen}
	d.call(200, "POST", "/control/burst", `{"count":50}`, nil)
	d.report("")
	d.call(200, "POST", "/control/koltrix/burst", `{"count":3,"history":["sent"]}`, nil) // to nobody
	d.call(202, "POST", "/control/burst", `{"count":100000,"perSecond":10,"noWait":true}`, nil)
	metrics := get("http://" + cfg.HealthListen + "/metrics")
	for _, want := range []string{
		`catchwater_simulator_requests_sent_total{status="204"}`, `catchwater_simulator_deliveries{state="delivered"}`,
		`catchwater_simulator_tasks_total{outcome="COMPLETED"}`, `catchwater_simulator_answer_milliseconds{quantile="p99"}`,
		`catchwater_simulator_tasks_unfinished{status="QUEUED"} 0`, `catchwater_simulator_koltrix_events_total{type="message.sent"} 3`,
		`catchwater_simulator_koltrix_deliveries{state="dead"}`, `catchwater_simulator_koltrix_messages{state="ended"} 3`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if listener, err := net.Listen("tcp", cfg.Listen); err != nil {
		t.Errorf("its port is not free: %v", err)
	} else {
		_ = listener.Close()
	}
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	taken := newReceiver(t).Listener.Addr().String()
	for want, change := range map[string]func(*Config){
		"--time-scale is 0: use 0.001 to 1000000": func(c *Config) { c.TimeScale = 0 },
		"--senders is 0: use 1 to 4096":           func(c *Config) { c.Senders = 0 },
		"--api-key is empty":                      func(c *Config) { c.APIKey = "" },
		"--secret is empty":                       func(c *Config) { c.Secrets = []string{testSecret, ""} },
		"--rate is 1e-12: use 0, or 0.001":        func(c *Config) { c.Rate = 1e-12 },
		"--koltrix-rate is NaN: use 0, or 0.001":  func(c *Config) { c.Koltrix.Rate = math.NaN() },
		"--koltrix-api-key is empty":              func(c *Config) { c.Koltrix.APIKey = "" },
		"--koltrix-secret is empty":               func(c *Config) { c.Koltrix.Secrets = []string{""} },
		"listen on " + taken:                      func(c *Config) { c.Listen = taken },
		"listen for health and metrics on ":       func(c *Config) { c.HealthListen = taken },
	} {
		cfg := usualConfig()
		change(&cfg)
		if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %s", err, want)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	return string(data)
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("there is no %s", what)
		case <-ticker.C:
		}
	}
}

// BenchmarkBurst measures deliveries a second to a receiver that verifies them,
// both on this machine.
func BenchmarkBurst(b *testing.B) {
	r := newReceiver(b)
	d := start(b, func(c *Config) { c.WebhookURL = r.URL })
	began := time.Now()
	d.call(200, "POST", "/control/burst", fmt.Sprintf(`{"count":%d}`, b.N), nil)
	report := d.report("")
	b.ReportMetric(float64(report.Deliveries.Delivered)/time.Since(began).Seconds(), "deliveries/s")
	b.ReportMetric(report.Deliveries.AnswerMs["p99"], "p99-ms")
}

package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/reconciler"
)

// within bounds what a test waits for; a sound run needs a fraction of it.
const within = 30 * time.Second

// provider is a small stand-in for the API: each task, and each message, answers
// as it is told.
type provider struct {
	*httptest.Server

	mu      sync.Mutex
	tasks   map[string]http.HandlerFunc // 404 for those not here
	asked   map[string]int
	keys    []string         // the bearer keys, as they came
	refused string           // the key that is answered 401
	busy    http.HandlerFunc // answers instead of all tasks, when set
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{tasks: make(map[string]http.HandlerFunc), asked: make(map[string]int)}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	id, _ := url.PathUnescape(path[strings.LastIndex(path, "/")+1:])
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	p.asked[id]++
	p.keys = append(p.keys, key)
	answer, refused := p.tasks[id], p.refused == key
	if p.busy != nil {
		answer = p.busy
	}
	p.mu.Unlock()
	switch {
	case refused:
		http.Error(w, `{"error":{"code":"UNAUTHORIZED"}}`, http.StatusUnauthorized)
	case answer == nil:
		http.Error(w, `{"error":{"code":"NOT_FOUND"}}`, http.StatusNotFound)
	default:
		answer(w, r)
	}
}

// answer makes a task answer in turn; the last answer stays.
func (p *provider) answer(id string, answers ...http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	p.tasks[id] = func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		p.mu.Unlock()
		answer(w, r)
	}
}

// setBusy makes all tasks answer the same, or, with nil, as they were told.
func (p *provider) setBusy(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = answer
}

func (p *provider) timesAsked(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[id]
}

// usedKeys returns the key of each request.
func (p *provider) usedKeys() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.keys)
}

// says is an answer with a body.
func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; n+1 < len(header); n += 2 {
			w.Header().Set(header[n], header[n+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// task is the answer about a task in a status.
func task(id, status string) http.HandlerFunc {
	return says(http.StatusOK, fmt.Sprintf(`{"task":{"id":%q,"status":%q,"createdAt":"2026-01-02T03:04:05Z"}}`, id, status))
}

// system is a database, a provider, and any number of reconcilers.
type system struct {
	t        *testing.T
	db       *pgxpool.Pool // the superuser's
	url      string
	provider *provider
	dir      string
	config   string // path of the sources file
	nats     string // nobody listens there, unless a test says so
}

// newSystem makes a system whose source has reconcile settings beyond those
// that all tests share.
func newSystem(t *testing.T, databaseURL, settings string) *system {
	t.Helper()
	return newSystemOf(t, databaseURL, "answers", "answerline", settings)
}

// newSystemOf makes a system whose source has that name and preset.
func newSystemOf(t *testing.T, databaseURL, name, preset, settings string) *system {
	t.Helper()
	s := &system{t: t, db: pgtest.Pool(t, databaseURL), url: databaseURL, provider: newProvider(t), dir: t.TempDir(), nats: "nats://127.0.0.1:1"}
	s.config = filepath.Join(s.dir, "catchwater.yaml")
	s.writeKey("the-api-key")
	s.write("secret", "whsec_0123456789abcdef")
	s.write("catchwater.yaml", fmt.Sprintf(`sources:
  %s:
    preset: %s
    secrets: [{file: %q}]
    max_body: 2KiB
    reconcile: {base_url: %q, token: {file: %q}, after: 1s, rate: 200, interval: 200ms%s}
`, name, preset, s.path("secret"), s.provider.URL, s.path("key"), settings))
	return s
}

func (s *system) path(name string) string { return filepath.Join(s.dir, name) }

func (s *system) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) writeKey(key string) { s.write("key", key+"\n") }

// running is one reconciler.
type running struct {
	t    *testing.T
	addr string // of its health and metrics
	log  *logBuffer
	stop func() time.Duration // as SIGTERM does; returns how long it took
}

// start runs a reconciler as its own role, until the test ends or stops it.
func (s *system) start() *running {
	s.t.Helper()
	r := &running{t: s.t, addr: freeAddress(s.t), log: &logBuffer{}}
	cfg := reconciler.Config{
		Database: service.Database{URL: pgtest.RoleURL(s.t, s.url, "catchwater_reconciler"), MaxConns: 8, ConnectTimeout: 2 * time.Second},
		Broker:   service.Broker{URL: s.nats}, Sources: service.Sources{Path: s.config}, HealthListen: r.addr,
		ScanInterval: 50 * time.Millisecond, Workers: 2, Lease: time.Second, PayloadRetention: 30 * 24 * time.Hour,
		PartitionsEvery: time.Hour, Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reconciler.Run(ctx, cfg) }()
	r.stop = sync.OnceValue(func() time.Duration {
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the reconciler ended with %v", err)
		}
		return time.Since(began)
	})
	s.t.Cleanup(func() {
		r.stop()
		if s.t.Failed() {
			s.t.Logf("the reconciler's log:\n%s", r.log)
		}
	})
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// get returns what one of the reconciler's own pages says.
func (r *running) get(page string) (status int, body string) {
	response, err := http.Get("http://" + r.addr + page)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(data)
}

// awaitMetric returns when a line of the metrics says so.
func (r *running) awaitMetric(line string) {
	r.t.Helper()
	await(r.t, "the metrics to say "+line, func() string {
		_, body := r.get("/metrics")
		if strings.Contains(body, "\n"+line+"\n") {
			return ""
		}
		var lines []string
		for l := range strings.Lines(body) {
			if strings.HasPrefix(l, "catchwater_") {
				lines = append(lines, l)
			}
		}
		return strings.Join(lines, "")
	})
}

// submit registers tasks as if two seconds ago, which is overdue.
func (s *system) submit(ids ...string) {
	s.t.Helper()
	s.exec("insert into submitted_tasks (task_id, created_at) select unnest($1::text[]), now() - interval '2 seconds'", ids)
}

func (s *system) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// text returns what a query of one text says, and "" without a row or for null.
func (s *system) text(sql string, args ...any) string {
	s.t.Helper()
	var text *string
	rows, err := s.db.Query(s.t.Context(), sql, args...)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
	if text == nil {
		return ""
	}
	return *text
}

// await returns when a query of one text says so.
func (s *system) await(want, sql string, args ...any) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("%q of %s %v", want, sql, args), func() string {
		if got := s.text(sql, args...); got != want {
			return fmt.Sprintf("it is %q", got)
		}
		return ""
	})
}

// await returns when problem returns nothing any more.
func await(t *testing.T, what string, problem func() string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(within); ; <-ticker.C {
		last := problem()
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; %s", within, what, last)
		}
	}
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// These tests run the engine against a real HTTP server over in-memory
// connections inside a synctest bubble: hours pass at once and exactly, and a
// goroutine that is left behind fails the test.

const secret = "whsec_0123456789abcdef"

// contract is a provider's like Answerline's: ten attempts of 15 s, and waits of
// 5 s, doubling, each shortened by a random part of up to half.
func contract() delivery.Contract {
	return delivery.Contract{
		MaxAttempts: 10, Timeout: 15 * time.Second, Sample: []byte(`{"test":true,"task":{"id":"sample"}}`),
		Wait: func(attempt int, random *rand.Rand) time.Duration {
			base := 5 * time.Second << (attempt - 1)
			return base - time.Duration(random.Int64N(int64(base/2)+1))
		},
		Headers: func(h http.Header, id string, now time.Time, secrets []string, body []byte) {
			h.Set("Webhook-Id", id)
			h.Set("Webhook-Signature", delivery.Sign(secrets, now, body))
		},
	}
}

// subject is something to deliver.
type subject struct {
	id   string
	gone bool
}

func (s *subject) ID() string   { return s.id }
func (s *subject) Body() []byte { return fmt.Appendf(nil, `{"task":{"id":%q}}`, s.id) }
func (s *subject) Kept() bool   { return !s.gone }

// pipes is a listener of in-memory connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start runs an engine that delivers to a handler, until the test ends.
func start(t *testing.T, handler http.HandlerFunc, change func(*delivery.Config)) *delivery.Engine {
	t.Helper()
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	cfg := delivery.Config{
		Contract: contract(), URL: "http://receiver.example/hooks/answers", Secrets: []string{secret},
		TimeScale: 1, Senders: 4, PrivateTargets: true, RedeliverLimit: 3, MaxLog: 1000, Seed: 1, Dial: listener.dial,
	}
	if change != nil {
		change(&cfg)
	}
	engine := delivery.NewEngine(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { engine.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		running.Wait()
	})
	return engine
}

func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// idle returns the log once nothing is pending, in the bubble's time.
func idle(engine *delivery.Engine) delivery.Report {
	for !engine.Idle() {
		time.Sleep(time.Second) // of the bubble: nobody waits for it
	}
	return engine.Report(delivery.Log)
}

func TestRetriesAsTheScheduleSaysThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := start(t, answer(http.StatusServiceUnavailable), nil)
		for n := range 20 {
			engine.Add(&subject{id: fmt.Sprint("t", n)})
		}
		report := idle(engine)
		if report.Dead != 20 || report.Attempts != 200 || report.ByCode["503"] != 200 {
			t.Fatalf("the report says %+v", report)
		}
		for _, d := range report.Deliveries {
			if d.Attempts != 10 || d.LastCode != 503 || d.LastError != "answered 503 Service Unavailable" {
				t.Fatalf("a dead delivery looks like %+v", d)
			}
			total := d.EndedAt.Sub(d.CreatedAt)
			if total < 1277*time.Second || total > 2555*time.Second {
				t.Errorf("ten attempts took %s, want 21.3 to 42.6 minutes", total)
			}
			for n := 1; n < len(d.History); n++ {
				base := 5 * time.Second << (n - 1)
				if gap := d.History[n].At.Sub(d.History[n-1].At); gap < base/2 || gap > base {
					t.Errorf("wait %d was %s, want %s to %s", n, gap, base/2, base)
				}
			}
		}
		spread := func(d delivery.Delivery) time.Duration { return d.EndedAt.Sub(d.CreatedAt) }
		if spread(report.Deliveries[0]) == spread(report.Deliveries[1]) {
			t.Error("two deliveries waited exactly as long: there is no random part")
		}
	})
}

func TestTimeScaleShortensWaitsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
		engine := start(t, hang, func(c *delivery.Config) { c.TimeScale = 1000 })
		engine.Add(&subject{id: "t1"})
		d := idle(engine).Deliveries[0]
		if took := d.EndedAt.Sub(d.CreatedAt); took < 150*time.Second || took > 154*time.Second {
			t.Errorf("ten attempts without an answer took %s, want 10 × 15 s and a little", took)
		}
		if d.State != delivery.Dead || d.LastError != "no answer within 15s" || d.History[0].TookMs != 15000 {
			t.Errorf("it looks like %+v", d)
		}
	})
}

func TestWhatCountsAsDelivered(t *testing.T) {
	for status, want := range map[int]delivery.State{
		200: delivery.Delivered, 204: delivery.Delivered, 299: delivery.Delivered,
		301: delivery.Dead, 308: delivery.Dead, 304: delivery.Dead, 400: delivery.Dead, 410: delivery.Dead, 429: delivery.Dead, 500: delivery.Dead,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				followed := false
				engine := start(t, func(w http.ResponseWriter, r *http.Request) {
					followed = followed || r.URL.Path != "/hooks/answers"
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
				}, nil)
				engine.Add(&subject{id: "t1"})
				d := idle(engine).Deliveries[0]
				if d.State != want || d.LastCode != status || followed {
					t.Errorf("it is %s with last status %d, redirect followed: %t", d.State, d.LastCode, followed)
				}
			})
		})
	}
}

func TestRedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &atomic.Bool{}
		ids := make(map[string]int)
		engine := start(t, func(w http.ResponseWriter, r *http.Request) {
			ids[r.Header.Get("Webhook-Id")]++
			if !up.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
		}, func(c *delivery.Config) { c.Senders = 1 })
		about := &subject{id: "t1"}
		id := engine.Add(about)
		synctest.Wait()
		if err := engine.Redeliver(id); !errors.Is(err, delivery.ErrPending) {
			t.Errorf("a pending delivery is redelivered: %v", err)
		}
		idle(engine)
		if err := engine.Redeliver(id); err != nil {
			t.Fatal(err)
		}
		if d := idle(engine).Deliveries[0]; d.State != delivery.Dead || d.Attempts != 10 || d.Total != 20 {
			t.Errorf("the fresh set of attempts: %+v", d)
		}
		up.Store(true)
		for range 2 { // dead, then delivered
			time.Sleep(time.Hour)
			if err := engine.Redeliver(id); err != nil {
				t.Fatal(err)
			}
			if d := idle(engine).Deliveries[0]; d.State != delivery.Delivered || d.Attempts != 1 {
				t.Errorf("redelivered to a receiver that is up: %+v", d)
			}
		}
		if len(ids) != 1 || ids[id] != 22 {
			t.Errorf("Webhook-Ids over all attempts: %v, want 22 of %s", ids, id)
		}
		for range 2 {
			_ = engine.Redeliver(id)
			idle(engine)
		}
		if err := engine.Redeliver(id); !errors.Is(err, delivery.ErrTooOften) {
			t.Errorf("a fourth redelivery in one hour: %v", err)
		}
		about.gone = true
		if err := engine.Redeliver(id); !errors.Is(err, delivery.ErrGone) {
			t.Errorf("a redelivery of what is gone: %v", err)
		}
		if err := engine.Redeliver("wh_other"); !errors.Is(err, delivery.ErrUnknown) {
			t.Errorf("a redelivery of nothing: %v", err)
		}
	})
}

func TestPauseAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := start(t, answer(http.StatusNoContent), nil)
		engine.Pause(true)
		engine.Add(&subject{id: "t1"})
		time.Sleep(time.Hour)
		if r := engine.Report(delivery.Totals); r.Pending != 1 || r.Sends != 0 || !r.Paused {
			t.Errorf("paused: %+v", r)
		}
		engine.Pause(false)
		if r := idle(engine); r.Delivered != 1 || r.Paused {
			t.Errorf("resumed: %+v", r)
		}
		engine.SetURL("")
		engine.SetFaults(delivery.Faults{Drop: 1})
		engine.Reset()
		if r := engine.Report(delivery.Log); r.Delivered != 0 || r.Sends != 0 || len(r.Deliveries) != 0 {
			t.Errorf("after a reset: %+v", r)
		}
		engine.Add(&subject{id: "t1"})
		if r := idle(engine); r.Delivered != 1 {
			t.Errorf("after a reset a delivery ends like this: %+v", r)
		}
	})
}

func TestResetForgetsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		engine := start(t, func(http.ResponseWriter, *http.Request) { <-release }, nil)
		engine.Add(&subject{id: "t1"})
		synctest.Wait()
		engine.Reset()
		if engine.Idle() {
			t.Error("it is idle with a request under way")
		}
		close(release)
		if r := idle(engine); r.Sends != 0 || r.Delivered != 0 {
			t.Errorf("what was under way is recorded after a reset: %+v", r)
		}
	})
}

func TestTheLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := start(t, answer(http.StatusNoContent), func(c *delivery.Config) { c.MaxLog = 100 })
		for n := range 250 {
			engine.Add(&subject{id: fmt.Sprint("t", n)})
			if n%50 == 0 {
				idle(engine)
			}
		}
		r := idle(engine)
		if r.Delivered != 250 || len(r.Deliveries) > 100 || r.Forgotten != 250-len(r.Deliveries) {
			t.Errorf("%d delivered, %d in the log, %d forgotten", r.Delivered, len(r.Deliveries), r.Forgotten)
		}
		if last := r.Deliveries[len(r.Deliveries)-1].Subject.ID(); last != "t249" {
			t.Errorf("the newest entry is %s", last)
		}
		engine.Pause(true)
		for n := range 150 {
			engine.Add(&subject{id: fmt.Sprint("u", n)})
		}
		if r := engine.Report(delivery.Log); r.Pending != 100 || r.Dropped != 50 || len(r.Deliveries) > 110 {
			t.Errorf("%d pending, %d turned away, %d in the log; want 100, 50, at most 110", r.Pending, r.Dropped, len(r.Deliveries))
		}
		if d := engine.List(delivery.Filter{State: delivery.Dropped, Limit: 1})[0]; d.LastError != "the log is full of pending deliveries" {
			t.Errorf("what was turned away says %q", d.LastError)
		}
	})
}

func TestListFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := start(t, func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) == `{"task":{"id":"bad"}}` {
				w.WriteHeader(http.StatusBadRequest)
			}
		}, nil)
		for _, id := range []string{"a", "bad", "b"} {
			engine.Add(&subject{id: id})
			time.Sleep(time.Second)
		}
		names := func(f delivery.Filter) (ids []string) {
			for _, d := range engine.List(f) {
				ids = append(ids, d.Subject.ID())
			}
			return ids
		}
		for _, c := range []struct {
			filter delivery.Filter
			want   []string
		}{
			{delivery.Filter{Limit: 10}, []string{"b", "bad", "a"}},
			{delivery.Filter{Limit: 2}, []string{"b", "bad"}},
			{delivery.Filter{State: delivery.Pending, Limit: 10}, []string{"bad"}},
			{delivery.Filter{State: delivery.Delivered, Limit: 10}, []string{"b", "a"}},
			{delivery.Filter{SubjectID: "a", Limit: 10}, []string{"a"}},
			{delivery.Filter{State: delivery.Dead, Limit: 10}, nil},
		} {
			if got := names(c.filter); !slices.Equal(got, c.want) {
				t.Errorf("%+v picks %v, want %v", c.filter, got, c.want)
			}
		}
		if d := engine.List(delivery.Filter{SubjectID: "bad", Limit: 1})[0]; d.NextAttemptAt.Before(time.Now()) || !d.EndedAt.IsZero() {
			t.Errorf("a pending delivery tells its next attempt: %+v", d)
		}
	})
}

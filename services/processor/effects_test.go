package processor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

// scene is a performer whose targets are the test's own functions, on a real
// database.
type scene struct {
	*performer
	t    *testing.T
	db   *pgxpool.Pool
	plan *effects.Plan
	log  *journal
	stop func() // and waits for it
}

// journal is a log to look into.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

type call = func(ctx context.Context, e effects.Event, key string) error

// newScene starts a performer of effects that are performed by functions, so many
// of each at a time.
func newScene(t *testing.T, workers int, calls map[string]call) *scene {
	t.Helper()
	s := stillScene(t, workers, calls)
	s.start()
	return s
}

// start lets the performer run until the scene is stopped.
func (s *scene) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	s.stop = func() { cancel(); running.Wait() }
	s.t.Cleanup(s.stop)
}

// stillScene is a scene whose performer does not run.
func stillScene(t *testing.T, workers int, calls map[string]call) *scene {
	t.Helper()
	s := &source.Source{Name: "mail"}
	for name := range calls {
		s.Effects = append(s.Effects, &source.Effect{
			Name: name, Handler: name, Timeout: 10 * time.Second, MaxAttempts: 3, RetryBase: time.Millisecond, RetryMax: 2 * time.Millisecond,
		})
	}
	handlers := effects.Handlers{AfterCommit: calls}
	url := pgtest.New(t)
	log := &journal{}
	cfg := Config{EffectWorkers: workers, EffectLease: time.Minute, ScanInterval: 50 * time.Millisecond, Handlers: handlers}
	p, err := newPerformer(pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_processor")), cfg, &source.Config{Sources: []*source.Source{s}},
		target.Options{Handlers: handlers}, newEffectMetrics(prometheus.NewRegistry(), nil), nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return &scene{performer: p, t: t, db: pgtest.Pool(t, url), plan: effects.NewPlan([]*source.Source{s}, handlers), log: log}
}

// happen has events processed, and waits for nothing.
func (s *scene) happen(keys ...string) {
	s.t.Helper()
	var deliveries []inbox.Delivery
	for _, key := range keys {
		deliveries = append(deliveries, inbox.Delivery{Source: "mail", EventKey: key, Origin: inbox.FromDelivery, Body: []byte(key)})
	}
	results, err := inbox.NewStore(s.db, 0).Insert(s.t.Context(), deliveries)
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []int64
	for _, r := range results {
		ids = append(ids, r.ID)
	}
	err = pgx.BeginFunc(s.t.Context(), s.db, func(tx pgx.Tx) error {
		rows, err := inbox.ClaimIDs(s.t.Context(), tx, ids)
		if err != nil {
			return err
		}
		if _, err := s.plan.Write(s.t.Context(), tx, rows, projection.Result{}); err != nil {
			return err
		}
		return inbox.Done(s.t.Context(), tx, ids)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.nudge()
}

// stated is how the effects stand; one that is being performed says so.
const stated = `select string_agg(name || '/' || event_key || ' ' || case when claimed_at is null then state::text else 'under way' end || ' ' || attempts,
  ', ' order by name, event_key) from effects`

func (s *scene) states() string {
	s.t.Helper()
	var text *string
	if err := s.db.QueryRow(s.t.Context(), stated).Scan(&text); err != nil {
		s.t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// await returns when the effects are in the states that are wanted.
func (s *scene) await(want string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		got := s.states()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("got  %s\nwant %s\n%s", got, want, s.log)
		}
	}
}

// counter counts calls by key.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) add(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]int)
	}
	c.calls[key]++
	return c.calls[key]
}

func TestEffectsAreTriedUntilTheyArePerformedOrGivenUp(t *testing.T) {
	t.Parallel()
	var made counter
	s := newScene(t, 2, map[string]call{"crm": func(_ context.Context, e effects.Event, key string) error {
		n := made.add(key)
		switch e.EventKey {
		case "twice":
			if n < 2 {
				return errors.New("not yet")
			}
		case "never":
			return errors.New("not today")
		case "panic":
			panic("a defect")
		case "permanent":
			return &inbox.PermanentError{Err: errors.New("no use")}
		}
		return nil
	}})
	s.happen("at once", "twice", "never", "panic", "permanent")
	s.await("crm/at once performed 1, crm/never given_up 3, crm/panic given_up 3, crm/permanent given_up 1, crm/twice performed 2")
	for key, want := range map[string]int{"mail:crm:at%20once": 1, "mail:crm:twice": 2, "mail:crm:never": 3, "mail:crm:panic": 3, "mail:crm:permanent": 1} {
		if made.calls[key] != want {
			t.Errorf("%s was called %d times, want %d", key, made.calls[key], want)
		}
	}
	var said string
	if err := s.db.QueryRow(t.Context(), "select string_agg(last_error, ', ' order by event_key) from effects").Scan(&said); err != nil || said != "not today, the handler panicked: a defect, no use" {
		t.Errorf("the errors are %q, %v", said, err)
	}
	s.stop()
	for outcome, want := range map[string]float64{"performed": 2, "failed": 5, "given_up": 3, "refused": 0} {
		if got := testutil.ToFloat64(s.metrics.calls.WithLabelValues("mail", "crm", outcome)); got != want {
			t.Errorf("%v were counted as %s, want %v", got, outcome, want)
		}
	}
	if !strings.Contains(s.log.String(), "level=ERROR msg=\"an effect was given up") || !strings.Contains(s.log.String(), "stack=") {
		t.Errorf("the log does not tell:\n%s", s.log)
	}
}

func TestATargetThatHangsHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	var hanging sync.WaitGroup
	hanging.Add(2)
	release := make(chan struct{})
	s := newScene(t, 2, map[string]call{
		"hung": func(context.Context, effects.Event, string) error { hanging.Done(); <-release; return nil },
		"live": func(context.Context, effects.Event, string) error { return nil },
	})
	s.happen("1", "2") // as many as there are workers
	hanging.Wait()
	s.happen("3", "4")
	s.await("hung/1 under way 1, hung/2 under way 1, hung/3 pending 0, hung/4 pending 0, live/1 performed 1, live/2 performed 1, live/3 performed 1, live/4 performed 1")
	hanging.Add(2)
	close(release)
	s.await("hung/1 performed 1, hung/2 performed 1, hung/3 performed 1, hung/4 performed 1, live/1 performed 1, live/2 performed 1, live/3 performed 1, live/4 performed 1")
}

func TestAStopFinishesWhatWasBegunAndBeginsNothing(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 9), make(chan struct{})
	s := newScene(t, 2, map[string]call{"crm": func(ctx context.Context, _ effects.Event, _ string) error {
		begun <- struct{}{}
		<-release
		return ctx.Err() // the stop is not the call's
	}})
	s.happen("1", "2", "3")
	<-begun
	<-begun
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("it stopped with calls under way")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-stopped
	if got := s.states(); got != "crm/1 performed 1, crm/2 performed 1, crm/3 pending 0" {
		t.Errorf("got %s", got)
	}
}

func TestAStopDoesNotWaitForEverForAHandler(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	s := stillScene(t, 1, map[string]call{"crm": func(context.Context, effects.Event, string) error {
		close(begun)
		<-release // whatever its time-out
		return nil
	}})
	s.patience = time.Millisecond
	s.lanes[effects.Kind{Source: "mail", Name: "crm"}].effect.Timeout = time.Millisecond
	s.start()
	s.happen("1")
	<-begun
	s.stop()
	if !strings.Contains(s.log.String(), "stopping with calls under way that do not heed their time-outs") {
		t.Errorf("the log does not tell:\n%s", s.log)
	}
	if got := s.states(); got != "crm/1 under way 1" {
		t.Errorf("got %s", got)
	}
}

func TestATargetThatAsksToBeLeftAlone(t *testing.T) {
	t.Parallel()
	var made counter
	s := newScene(t, 1, map[string]call{"crm": func(context.Context, effects.Event, string) error {
		made.add("all")
		return &target.Error{Text: "the answer is 429", RetryAfter: time.Hour}
	}})
	s.happen("1")
	s.await("crm/1 pending 1")
	s.happen("2", "3")
	var soon bool
	if err := s.db.QueryRow(t.Context(), "select bool_or(next_attempt_at < now() + interval '59 minutes') from effects where attempts > 0").Scan(&soon); err != nil || soon {
		t.Errorf("it is tried again before that: %v, %v", soon, err)
	}
	s.stop()
	if made.calls["all"] != 1 {
		t.Errorf("%d calls were made", made.calls["all"])
	}
	if n := strings.Count(s.log.String(), "asked to be left alone: no call of this effect is made until then\" source=mail effect=crm until="); n != 1 {
		t.Errorf("%d lines tell of the pause:\n%s", n, s.log)
	}
}

func TestOneAnswerSilencesAnEffectForMinutesAtMost(t *testing.T) {
	t.Parallel()
	s := stillScene(t, 3, map[string]call{"crm": nil})
	l := s.lanes[effects.Kind{Source: "mail", Name: "crm"}]
	a := attempt{lane: l, rest: time.Hour, Result: effects.Result{Call: &effects.Call{Name: "crm", Event: effects.Event{Source: "mail"}}}}
	now := time.Now()
	s.rest(a, now)
	s.rest(a, now.Add(time.Second)) // a call that was under way
	if got := l.rests.Sub(now); got != longestRest+time.Second {
		t.Errorf("it rests for %s", got)
	}
	a.rest = time.Minute
	later := now.Add(time.Hour)
	s.rest(a, later)
	if got := l.rests.Sub(later); got != time.Minute {
		t.Errorf("it rests for %s", got)
	}
	if n := strings.Count(s.log.String(), "asked to be left alone"); n != 2 {
		t.Errorf("%d lines tell of two pauses:\n%s", n, s.log)
	}
}

// TestRecordingIsTriedUntilItSucceeds takes the table away while a call is under
// way: it must not be made again when the table is back.
func TestRecordingIsTriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	var made counter
	begun, release := make(chan struct{}, 9), make(chan struct{})
	s := newScene(t, 2, map[string]call{"crm": func(_ context.Context, _ effects.Event, key string) error {
		made.add(key)
		begun <- struct{}{}
		<-release
		return nil
	}})
	s.happen("1")
	<-begun
	exec := func(sql string) {
		t.Helper()
		if _, err := s.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("alter table effects rename to away")
	close(release)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.log.String(), "cannot be recorded"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not tell:\n%s", s.log)
		}
	}
	exec("alter table away rename to effects")
	s.await("crm/1 performed 1")
	if n := made.calls["mail:crm:1"]; n != 1 {
		t.Errorf("%d calls were made", n)
	}
}

// TestAfterAnOutageOthersRecordFirst has a claim run out that nobody recorded: it
// is left alone while the database has only just come back.
func TestAfterAnOutageOthersRecordFirst(t *testing.T) {
	t.Parallel()
	s := stillScene(t, 1, map[string]call{"crm": nil})
	s.happen("1")
	wanted := []effects.Wanted{{Kind: effects.Kind{Source: "mail", Name: "crm"}, Most: 1, Lease: time.Hour}}
	claim := func() []effects.Call {
		t.Helper()
		calls, _, err := s.claim(t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		return calls
	}
	s.troubled.Store(time.Now().Add(time.Hour).UnixNano())
	if calls := claim(); len(calls) != 1 || calls[0].Repeated {
		t.Fatalf("what nobody has begun is to be had at once: %+v", calls)
	}
	if _, err := s.db.Exec(t.Context(), "update effects set next_attempt_at = now()"); err != nil {
		t.Fatal(err)
	}
	if calls := claim(); len(calls) != 0 {
		t.Errorf("right after an outage: %+v", calls)
	}
	s.troubled.Store(time.Now().Add(-2 * settleTime).UnixNano())
	if calls := claim(); len(calls) != 1 || !calls[0].Repeated || calls[0].Attempt != 2 {
		t.Errorf("later: %+v", calls)
	}
	s.troubled.Store(time.Now().Add(-2 * settleTime).UnixNano())
	if _, err := s.db.Exec(t.Context(), "alter table effects rename to away"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.claim(t.Context(), wanted); err == nil || time.Since(time.Unix(0, s.troubled.Load())) > settleTime {
		t.Errorf("an outage goes unnoticed: %v", err)
	}
}

func TestEffectsThatNobodyIsGoingToPerformAreReported(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, map[string]call{"crm": func(context.Context, effects.Event, string) error { return nil }})
	said := s.reportUnknown([]effects.Backlog{{Source: "mail", Name: "gone", State: effects.Pending, Effects: 3}, {Source: "mail", Name: "crm", State: effects.Pending}}, nil)
	if n := strings.Count(s.log.String(), "effect=gone effects=3"); n != 1 || strings.Contains(s.log.String(), "effect=crm") {
		t.Errorf("the log tells:\n%s", s.log)
	}
	said = s.reportUnknown([]effects.Backlog{{Source: "mail", Name: "gone", State: effects.Pending, Effects: 4}}, said)
	if len(said) != 1 || strings.Contains(s.log.String(), "effects=4") {
		t.Errorf("it is told again:\n%s", s.log)
	}
}

package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/lease"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

// within bounds what a test waits for; a sound run needs a fraction of it.
const within = 20 * time.Second

// candidate is one process's part in an election, as a test steers it.
type candidate struct {
	t       *testing.T
	db      *flakyDB
	started chan time.Time // when it began to lead
	ended   chan time.Time // when it was told to stop
	stop    func()         // as SIGTERM does, and waits
}

// flakyDB is a database that can go away.
type flakyDB struct {
	*pgxpool.Pool
	gone atomic.Bool
}

func (db *flakyDB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if db.gone.Load() {
		<-ctx.Done() // neither answered nor refused, which is the worst
		return pgconn.CommandTag{}, ctx.Err()
	}
	return db.Pool.Exec(ctx, sql, args...)
}

func stand(t *testing.T, url, holder string, life time.Duration) *candidate {
	t.Helper()
	c := &candidate{t: t, db: &flakyDB{Pool: pgtest.Pool(t, url)}, started: make(chan time.Time, 100), ended: make(chan time.Time, 100)}
	l := lease.Lease{DB: c.db, Name: "duty", Holder: holder, Life: life, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		l.Lead(ctx, func(ctx context.Context) {
			c.started <- time.Now()
			<-ctx.Done()
			c.ended <- time.Now()
		})
	})
	c.stop = func() { cancel(); running.Wait() }
	t.Cleanup(c.stop)
	return c
}

func await(t *testing.T, events <-chan time.Time, what string) time.Time {
	t.Helper()
	select {
	case at := <-events:
		return at
	case <-time.After(within):
		t.Fatalf("waited %s for %s", within, what)
		return time.Time{}
	}
}

func TestOneLeadsAndHandsOverWhenItStops(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} { // exec is for transaction poolers
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := pgtest.RoleURL(t, pgtest.New(t), "catchwater_reconciler") + "&default_query_exec_mode=" + mode
			const life = 3 * time.Second
			first := stand(t, url, "first", life)
			await(t, first.started, "the first to lead")
			second := stand(t, url, "second", life)
			stopped := time.Now()
			first.stop()
			await(t, first.ended, "the first to end")
			// Given back, not expired: the second asks every third of a life.
			if took := await(t, second.started, "the second to lead").Sub(stopped); took > life*9/10 {
				t.Errorf("the hand-over took %s, as long as after a death", took)
			}
			if len(first.started) > 0 {
				t.Error("the first led again after it was stopped")
			}
		})
	}
}

// TestADeadLeaderIsSucceeded cuts a leader off from the database: it must stop
// by itself while the lease is still its own, and another take over.
func TestADeadLeaderIsSucceeded(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	const life = 1500 * time.Millisecond
	first := stand(t, url, "first", life)
	await(t, first.started, "the first to lead")
	second := stand(t, url, "second", life)
	first.db.gone.Store(true)
	cut := time.Now()
	ended := await(t, first.ended, "the first to give up")
	took := await(t, second.started, "the second to lead")
	if !ended.Before(took) {
		t.Errorf("both led at a time: the second began %s before the first ended", ended.Sub(took))
	}
	if after := took.Sub(cut); after > 2*life {
		t.Errorf("the second took over after %s, with a lease of %s", after, life)
	}
	first.db.gone.Store(false)
	second.stop()
	await(t, first.started, "the first to lead again")
}

// TestALeaseThatIsTakenAwayEndsTheLead has an operator give the row to another.
func TestALeaseThatIsTakenAwayEndsTheLead(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	first := stand(t, url, "first", time.Second)
	await(t, first.started, "the first to lead")
	if _, err := first.db.Pool.Exec(t.Context(), "update leases set holder = 'operator', expires_at = 'infinity'"); err != nil {
		t.Fatal(err)
	}
	await(t, first.ended, "the first to end")
	var holder string
	if err := first.db.QueryRow(t.Context(), "select holder from leases where expires_at > now()").Scan(&holder); err != nil || holder != "operator" {
		t.Errorf("the lease is with %q, %v", holder, err)
	}
}

func TestNeverTwoAtATime(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	const life = time.Second
	var leading, led atomic.Int32
	var running sync.WaitGroup
	pool := pgtest.Pool(t, url)
	for n := range 4 {
		running.Go(func() {
			for turn := range 3 { // each stops and comes back, as in a rolling restart
				ctx, cancel := context.WithCancel(context.Background())
				l := lease.Lease{DB: pool, Name: "duty", Holder: string(rune('a'+n)) + string(rune('0'+turn)), Life: life, Log: slog.New(slog.DiscardHandler)}
				l.Lead(ctx, func(ctx context.Context) {
					if leading.Add(1) > 1 {
						t.Error("two lead at a time")
					}
					if _, err := pool.Exec(ctx, "select pg_sleep(0.02)"); err != nil { // something to be caught at
						t.Error(err)
					}
					led.Add(1)
					leading.Add(-1)
					cancel() // done: stop this process
				})
			}
		})
	}
	running.Wait()
	if led.Load() != 12 {
		t.Errorf("%d turns were led, want 12", led.Load())
	}
}

func TestAskedIsTold(t *testing.T) {
	t.Parallel()
	db := &flakyDB{Pool: pgtest.Pool(t, pgtest.New(t))}
	told := make(chan error, 100)
	l := lease.Lease{
		DB: db, Name: "duty", Holder: "only", Life: time.Second, Log: slog.New(slog.DiscardHandler),
		Asked: func(err error) { told <- err },
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Lead(ctx, func(ctx context.Context) { <-ctx.Done() }) })
	if err := <-told; err != nil {
		t.Errorf("told %v, want nil", err)
	}
	db.gone.Store(true)
	for deadline := time.After(within); ; {
		select {
		case err := <-told:
			if err == nil {
				continue
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("told %v, want a time-out", err)
			}
		case <-deadline:
			t.Error("the outage was not told")
		}
		break
	}
	cancel()
	running.Wait()
}

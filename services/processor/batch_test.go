package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/projection"
)

// scripted is a projection that does to each row what its body says, and writes
// the row's key to the table applied.
type scripted struct{ calls *[]int }

func (s scripted) Apply(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (projection.Result, error) {
	*s.calls = append(*s.calls, len(rows))
	result := projection.Result{Failed: make(map[int64]error), Waiting: make(map[int64]string)}
	for _, row := range rows {
		switch string(row.Body) {
		case "fail":
			result.Failed[row.ID] = errors.New("not today")
			continue
		case "permanent":
			result.Failed[row.ID] = &inbox.PermanentError{Err: errors.New("never")}
			continue
		case "wait":
			result.Waiting[row.ID] = "better times"
			continue
		case "panic":
			panic("a defect")
		case "refused":
			if _, err := tx.Exec(ctx, "select 1/0"); err != nil {
				return projection.Result{}, fmt.Errorf("apply: %w", err)
			}
		case "slow":
			if _, err := tx.Exec(ctx, "select pg_sleep(60)"); err != nil {
				return projection.Result{}, fmt.Errorf("apply: %w", err)
			}
		case "down":
			return projection.Result{}, errors.New("the connection broke")
		}
		if _, err := tx.Exec(ctx, "insert into applied (key) values ($1)", row.EventKey); err != nil {
			return projection.Result{}, err
		}
	}
	return result, nil
}

type fixture struct {
	*batcher
	t     *testing.T
	store *inbox.Store
	calls []int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.New(t))
	if _, err := pool.Exec(t.Context(), "create table applied (key text primary key)"); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, store: inbox.NewStore(pool, 0)}
	f.batcher = &batcher{
		db: pool, timeout: 10 * time.Second, maxAttempts: 2, retryBase: time.Hour, retryMax: 2 * time.Hour,
		projections: map[string]projection.Projection{"answers": scripted{&f.calls}, "other": projection.None{}},
		plan:        effects.NewPlan(nil, effects.Handlers{}),
		metrics:     newMetrics(prometheus.NewRegistry(), nil, func() bool { return true }),
	}
	return f
}

func (f *fixture) insert(source string, bodies ...string) []int64 {
	f.t.Helper()
	var deliveries []inbox.Delivery
	for n, body := range bodies {
		deliveries = append(deliveries, inbox.Delivery{
			Source: source, EventKey: fmt.Sprintf("%s-%d-%s", source, n, body), Origin: inbox.FromDelivery, Body: []byte(body),
		})
	}
	results, err := f.store.Insert(f.t.Context(), deliveries)
	if err != nil {
		f.t.Fatal(err)
	}
	var ids []int64
	for _, r := range results {
		ids = append(ids, r.ID)
	}
	return ids
}

func (f *fixture) process(ids []int64) (outcome, error) {
	return f.run(f.t.Context(), viaDoorbell, func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) { return inbox.ClaimIDs(ctx, tx, ids) }, nil)
}

func (f *fixture) text(sql string, args ...any) string {
	f.t.Helper()
	var text *string
	tx, err := f.db.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if err := tx.QueryRow(f.t.Context(), sql, args...).Scan(&text); err != nil {
		f.t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

const states = "select string_agg(state || ' ' || attempts, ', ' order by id) from inbox"

func TestABadRowOfEachKindFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("answers", "ok", "refused", "ok", "panic", "fail", "permanent", "ok")
	result, err := f.process(ids)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.rows) != 7 || len(result.failures) != 4 {
		t.Errorf("%d rows, %d failures: %v", len(result.rows), len(result.failures), result.failures)
	}
	if got, want := f.text(states), "processed 1, pending 1, processed 1, pending 1, pending 1, quarantined 1, processed 1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := f.text("select count(*)::text from applied"); got != "3" {
		t.Errorf("%s rows were applied, want 3", got)
	}
	if got := f.text("select last_error from inbox where event_key like '%panic'"); got != "the projection panicked: a defect" {
		t.Errorf("the panic's row says %q", got)
	}
	// Put off by about an hour, they are not claimed.
	if result, err = f.process(ids); err != nil || len(result.rows) != 0 {
		t.Errorf("rows that are put off were claimed: %v, %v", result.rows, err)
	}
}

func TestTheLastAttemptQuarantines(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.maxAttempts = 1
	ids := f.insert("answers", "fail")
	if _, err := f.process(ids); err != nil {
		t.Fatal(err)
	}
	if got := f.text(states); got != "quarantined 1" {
		t.Errorf("got %s", got)
	}
}

func TestABrokenConnectionChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("answers", "ok", "down", "ok")
	if _, err := f.process(ids); err == nil {
		t.Fatal("no error")
	}
	if got := f.text(states); got != "pending 0, pending 0, pending 0" {
		t.Errorf("got %s", got)
	}
	if got := f.text("select count(*)::text from applied"); got != "0" {
		t.Errorf("%s rows were applied", got)
	}
}

func TestSourcesOfOneBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := slices.Concat(f.insert("answers", "ok"), f.insert("other", "anything"), f.insert("unknown", "x"))
	if _, err := f.process(ids); err != nil {
		t.Fatal(err)
	}
	if got, want := f.text(states), "processed 1, processed 1, pending 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBackOffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for attempts, longest := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 9: 5 * time.Minute, 500: 5 * time.Minute} {
		for range 100 {
			if wait := backOff(time.Second, 5*time.Minute, attempts); wait > longest || wait < longest/2 {
				t.Fatalf("after %d attempts: %s, want %s to %s", attempts, wait, longest/2, longest)
			}
		}
	}
}

func TestWatermark(t *testing.T) {
	t.Parallel()
	var w watermark
	now := time.Unix(1_000_000, 0)
	if from := w.from(now); !from.Equal(time.Unix(0, 0)) {
		t.Errorf("the first scan begins at %s", from)
	}
	w.nothingDue(now)
	if from := w.from(now.Add(time.Second)); !from.Equal(now.Add(-watermarkSlack)) {
		t.Errorf("after an empty scan the next begins at %s", from)
	}
	w.nothingDue(now.Add(-time.Hour)) // a slow one that began before
	if from := w.from(now.Add(2 * time.Second)); !from.Equal(now.Add(-watermarkSlack)) {
		t.Errorf("the watermark went back to %s", from)
	}
	if from := w.from(now.Add(fullScanEvery)); !from.Equal(time.Unix(0, 0)) {
		t.Errorf("the full scan begins at %s", from)
	}
}

func TestAWaitingRowIsPutOffAndNotCountedAsFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("answers", "wait", "ok")
	for look := range 5 { // more looks than there are attempts
		if result, err := f.process(ids); err != nil || len(result.failures) > 0 || (len(result.waiting) == 1) != (look == 0) {
			t.Fatalf("look %d: %+v, %v", look, result, err)
		}
		if got := f.text(states); got != "waiting 0, processed 1" {
			t.Fatalf("look %d: %s", look, got)
		}
	}
	if got := f.text("select last_error from inbox where state = 'waiting'"); got != "waits for better times" {
		t.Errorf("the row says %q", got)
	}
}

// TestARowThatIsAlwaysTooSlowIsQuarantined has one that takes longer than a batch
// may: with others the batch is rolled back and made smaller; alone, it is a
// failure like any other.
func TestARowThatIsAlwaysTooSlowIsQuarantined(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("answers", "ok", "slow")
	f.timeout = time.Second
	if _, err := f.process(ids); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("beside another: %v", err)
	}
	if got := f.text(states); got != "pending 0, pending 0" {
		t.Errorf("beside another: %s", got)
	}
	// The rows are locked until the server has heard that nobody waits any more.
	const sleeping = "select count(*)::text from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%pg_sleep%'"
	for deadline := time.Now().Add(30 * time.Second); f.text(sleeping) != "0"; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection that was given up is still there")
		}
	}
	for _, want := range []string{"pending 0, pending 1", "pending 0, quarantined 2"} {
		if result, err := f.process(ids[1:]); err != nil || len(result.failures) != 1 {
			t.Fatalf("alone: %+v, %v", result, err)
		}
		if got := f.text(states); got != want {
			t.Errorf("alone: %s, want %s", got, want)
		}
		f.exec("update inbox set next_attempt_at = now() where state = 'pending'")
	}
	if got := f.text("select last_error from inbox where state = 'quarantined'"); !strings.HasPrefix(got, "not processed within 1s: ") {
		t.Errorf("it says %q", got)
	}
}

func (f *fixture) exec(sql string) {
	f.t.Helper()
	tx, err := f.db.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// TestARowOfAnUnknownSourceWaitsForOneWhoKnowsIt is what happens while a source is
// added, and the ingress knows it before the processors do.
func TestARowOfAnUnknownSourceWaitsForOneWhoKnowsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := append(f.insert("stranger", "ok"), f.insert("other", "ok")...)
	for range 5 { // more looks than there are attempts
		if _, err := f.process(ids); err != nil {
			t.Fatal(err)
		}
		if got := f.text(states); got != "pending 0, processed 1" {
			t.Fatalf("got %s", got)
		}
	}
	if got := f.text("select last_error from inbox where state = 'pending' and next_attempt_at > received_at"); got != "waits for source stranger to be in the processor's sources file" {
		t.Errorf("it says %q", got)
	}
	f.projections["stranger"] = projection.None{}
	if _, err := f.process(ids); err != nil {
		t.Fatal(err)
	}
	if got := f.text(states); got != "processed 1, processed 1" {
		t.Errorf("known: %s", got)
	}
}

package effects_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

// fixture is a database with events in its inbox, and a plan of effects.
type fixture struct {
	*testing.T
	super, db *pgxpool.Pool // db as the processor's role
	plan      *effects.Plan
}

const lease = time.Hour

func newFixture(t *testing.T, handlers effects.Handlers, all ...*source.Effect) *fixture {
	t.Helper()
	url := pgtest.New(t)
	return &fixture{
		T: t, super: pgtest.Pool(t, url), db: pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_processor")),
		plan: effects.NewPlan([]*source.Source{{Name: "mail", Effects: all}}, handlers),
	}
}

// receive puts events of a type into the inbox.
func (f *fixture) receive(eventType string, keys ...string) []inbox.Row {
	f.Helper()
	var deliveries []inbox.Delivery
	for _, key := range keys {
		deliveries = append(deliveries, inbox.Delivery{
			Source: "mail", EventKey: key, EventType: eventType, Subject: "subject of " + key, Origin: inbox.FromDelivery,
			OccurredAt: time.Unix(1_700_000_000, 0), Body: []byte("body of " + key), Headers: map[string]string{"Content-Type": "text/plain"},
			Traceparent: "trace of " + key,
		})
	}
	stored, err := inbox.NewStore(f.super, 0).Insert(f.Context(), deliveries)
	if err != nil {
		f.Fatal(err)
	}
	var ids []int64
	for _, s := range stored {
		ids = append(ids, s.ID)
	}
	var rows []inbox.Row
	f.inTx(func(tx pgx.Tx) error {
		rows, err = inbox.ClaimIDs(f.Context(), tx, ids)
		return err
	})
	return rows
}

func (f *fixture) inTx(do func(tx pgx.Tx) error) {
	f.Helper()
	if err := pgx.BeginFunc(f.Context(), f.db, do); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) write(rows []inbox.Row, applied projection.Result) (written int) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) (err error) {
		written, err = f.plan.Write(f.Context(), tx, rows, applied)
		return err
	})
	return written
}

// claim claims effects by name, and names what it got by effect and event.
func (f *fixture) claim(most int, abandoned bool, names ...string) (calls []effects.Call, got string) {
	f.Helper()
	var wanted []effects.Wanted
	for _, name := range names {
		wanted = append(wanted, effects.Wanted{Kind: effects.Kind{Source: "mail", Name: name}, Most: most, Lease: lease})
	}
	calls, err := effects.Claim(f.Context(), f.db, wanted, abandoned)
	if err != nil {
		f.Fatal(err)
	}
	var texts []string
	for _, c := range calls {
		texts = append(texts, fmt.Sprintf("%s/%s#%d", c.Name, c.EventKey, c.Attempt))
	}
	slices.Sort(texts)
	return calls, strings.Join(texts, " ")
}

func (f *fixture) record(calls []effects.Call, state effects.State, retryIn time.Duration) []int64 {
	f.Helper()
	var results []effects.Result
	for i := range calls {
		results = append(results, effects.Result{Call: &calls[i], State: state, Err: errors.New("because \x00"), RetryIn: retryIn})
	}
	lost, err := effects.Record(f.Context(), f.db, results)
	if err != nil {
		f.Fatal(err)
	}
	return lost
}

func (f *fixture) expect(want string) {
	f.Helper()
	var got *string
	if err := f.super.QueryRow(f.Context(), `select string_agg(name || '/' || event_key || ' ' || state || ' ' || attempts, ', ' order by name, event_key) from effects`).Scan(&got); err != nil {
		f.Fatal(err)
	}
	if got == nil {
		got = new(string)
	}
	if *got != want {
		f.Errorf("got  %s\nwant %s", *got, want)
	}
}

func TestWhichEffectsAreWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "all"}, &source.Effect{Name: "news", OnChange: true}, &source.Effect{Name: "other", Types: []string{"other"}})
	rows := f.receive("bounce", "applied", "changed", "failed", "waiting")
	applied := projection.Result{
		Failed: map[int64]error{rows[2].ID: errors.New("no")}, Waiting: map[int64]string{rows[3].ID: "something"},
		Changes: map[int64]projection.Change{rows[1].ID: {Status: "bounced", Previous: "sent", Changed: true}},
	}
	if n := f.write(rows, applied); n != 3 {
		t.Errorf("%d effects were written, want 3", n)
	}
	f.write(rows, applied) // nothing comes twice
	f.expect("all/applied pending 0, all/changed pending 0, news/changed pending 0")

	calls, _ := f.claim(9, false, "news")
	c := calls[0]
	if c.Source != "mail" || c.EventKey != "changed" || c.Type != "bounce" || c.Subject != "subject of changed" || !c.OccurredAt.Equal(time.Unix(1_700_000_000, 0)) ||
		c.Origin != inbox.FromDelivery || string(c.Body) != "body of changed" || c.Headers["Content-Type"] != "text/plain" || c.Traceparent != "trace of changed" ||
		!c.ReceivedAt.Equal(rows[1].ReceivedAt) || c.Change != (effects.Change{Status: "bounced", Previous: "sent", Changed: true}) || c.NoBody || c.Repeated {
		t.Errorf("the call is %+v", c)
	}
}

func TestAHandlerWithinTheTransaction(t *testing.T) {
	t.Parallel()
	run := func(ctx context.Context, tx pgx.Tx, e effects.Event) error {
		if string(e.Body) == "body of bad" {
			return errors.New("not this one")
		}
		_, err := tx.Exec(ctx, "select set_config('test.seen', $1, true)", e.EventKey)
		return err
	}
	f := newFixture(t, effects.Handlers{InTransaction: map[string]func(context.Context, pgx.Tx, effects.Event) error{"own": run}},
		&source.Effect{Name: "own", Handler: "own", Transaction: true})
	rows := f.receive("x", "a good one", "bad")
	f.inTx(func(tx pgx.Tx) error {
		n, err := f.plan.Write(t.Context(), tx, rows[:1], projection.Result{})
		var seen string
		if scanErr := tx.QueryRow(t.Context(), "select current_setting('test.seen')").Scan(&seen); err != nil || n != 0 || seen != "a good one" || scanErr != nil {
			t.Errorf("%d written, %v; the handler saw %q", n, err, seen)
		}
		var refused *effects.HandlerError
		if _, err = f.plan.Write(t.Context(), tx, rows, projection.Result{}); !errors.As(err, &refused) || err.Error() != "handler own: not this one" {
			t.Errorf("got %v", err)
		}
		return nil
	})
	f.expect("")
}

func TestClaimsAreFairAndExclusive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"}, &source.Effect{Name: "b"})
	f.write(f.receive("x", "1", "2", "3"), projection.Result{})
	if _, got := f.claim(2, true, "a", "b"); got != "a/1#1 a/2#1 b/1#1 b/2#1" {
		t.Errorf("two of each: %s", got)
	}
	if _, got := f.claim(9, true, "a", "b"); got != "a/3#1 b/3#1" {
		t.Errorf("the rest: %s", got)
	}
	if _, got := f.claim(9, true, "a", "b"); got != "" {
		t.Errorf("what is claimed was claimed again: %s", got)
	}
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	f.write(f.receive("x", keys...), projection.Result{})
	var mu sync.Mutex
	claimed := make(map[int64]int)
	var claimers sync.WaitGroup
	for range 6 {
		claimers.Go(func() {
			for {
				calls, err := effects.Claim(context.Background(), f.db, []effects.Wanted{{Kind: effects.Kind{Source: "mail", Name: "a"}, Most: 7, Lease: lease}}, true)
				if err != nil {
					t.Error(err)
				}
				if len(calls) == 0 {
					return
				}
				mu.Lock()
				for _, c := range calls {
					claimed[c.ID]++
				}
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	for id, times := range claimed {
		if times != 1 {
			t.Errorf("effect %d was claimed %d times", id, times)
		}
	}
	if _, got := f.claim(9, true, "a"); got != "" || len(claimed) < len(keys)*9/10 {
		t.Errorf("%d were claimed by six at once, %s is left", len(claimed), got)
	}
}

func TestWhatBecomesOfClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"})
	f.write(f.receive("x", "1", "2", "3", "4"), projection.Result{})
	calls, _ := f.claim(9, true, "a")
	f.record(calls[:1], effects.Performed, 0)
	f.record(calls[1:2], effects.Pending, 0)
	f.record(calls[2:3], effects.GivenUp, 0)
	f.expect("a/1 performed 1, a/2 pending 1, a/3 given_up 1, a/4 pending 1")
	if err := effects.HandBack(t.Context(), f.db, calls[3:]); err != nil {
		t.Fatal(err)
	}
	again, got := f.claim(9, true, "a")
	if got != "a/2#2 a/4#1" || again[0].Repeated || again[1].Repeated {
		t.Errorf("claimed again: %s, %+v", got, again)
	}
	f.record(again, effects.Pending, time.Hour)
	if _, got := f.claim(9, true, "a"); got != "" {
		t.Errorf("what was put off was claimed: %s", got)
	}
	backlog, err := effects.Backlogs(t.Context(), f.db)
	if err != nil || len(backlog) != 2 {
		t.Errorf("the backlog is %+v, %v", backlog, err)
	}
	for _, b := range backlog {
		if want := map[effects.State]int64{effects.Pending: 2, effects.GivenUp: 1}[b.State]; b.Effects != want || b.OldestAge <= 0 {
			t.Errorf("the backlog has %+v, want %d", b, want)
		}
	}
}

func TestAClaimWhoseLeaseRanOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"})
	f.write(f.receive("x", "1"), projection.Result{})
	first, _ := f.claim(1, true, "a")
	if _, err := f.super.Exec(t.Context(), "update effects set next_attempt_at = now() - interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	if _, got := f.claim(1, false, "a"); got != "" {
		t.Errorf("what another has was claimed though it is to be left: %s", got)
	}
	second, got := f.claim(1, true, "a")
	if got != "a/1#2" || !second[0].Repeated || second[0].Key() != first[0].Key() {
		t.Errorf("claimed %s, %+v", got, second)
	}
	// The first was alive, and slow: that it failed says nothing of the second.
	if lost := f.record(first, effects.GivenUp, 0); len(lost) != 1 {
		t.Errorf("lost %v, want the one claim", lost)
	}
	f.expect("a/1 pending 2")
	// But that it was done is so.
	if lost := f.record(first, effects.Performed, 0); len(lost) != 1 {
		t.Errorf("lost %v, want the one claim", lost)
	}
	if lost := f.record(second, effects.Pending, 0); len(lost) != 1 {
		t.Errorf("lost %v, want the one claim", lost)
	}
	f.expect("a/1 performed 2")
}

func TestOperators(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"}, &source.Effect{Name: "b"})
	f.write(f.receive("x", "1", "2"), projection.Result{})
	calls, _ := f.claim(9, true, "a", "b")
	f.record(calls, effects.GivenUp, 0)
	list, err := effects.List(t.Context(), f.super, effects.Filter{State: effects.GivenUp, Name: "b"}, 10)
	if err != nil || len(list) != 2 || list[0].Name != "b" || *list[0].LastError != "because \uFFFD" {
		t.Fatalf("listed %+v, %v", list, err)
	}
	one, err := effects.List(t.Context(), f.super, effects.Filter{IDs: []int64{calls[0].ID}}, 10)
	if err != nil || len(one) != 1 || one[0].ID != calls[0].ID {
		t.Errorf("listed %+v, %v", one, err)
	}
	if done, err := effects.Retry(t.Context(), f.super, effects.Filter{Name: "b"}); err != nil || len(done.GivenUp) != 2 || len(done.Waiting) != 0 {
		t.Errorf("retried %+v, %v", done, err)
	}
	if ids, err := effects.Discard(t.Context(), f.super, effects.Filter{IDs: []int64{calls[0].ID, 99}}); err != nil || len(ids) != 1 {
		t.Errorf("discarded %v, %v", ids, err)
	}
	f.claim(1, true, "b")
	if ids, err := effects.Discard(t.Context(), f.super, effects.Filter{Name: "b"}); err != nil || len(ids) != 1 {
		t.Errorf("discarded %v, %v; the one being performed stays", ids, err)
	}
}

// TestRetryingWhatWaits has effects that wait for an hour made due, but not one
// that is due already, under way or performed.
func TestRetryingWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"})
	f.write(f.receive("x", "1", "2", "3", "4", "5"), projection.Result{})
	calls, _ := f.claim(4, true, "a")
	f.record(calls[:1], effects.Pending, time.Hour)
	f.record(calls[1:2], effects.GivenUp, 0)
	f.record(calls[2:3], effects.Performed, 0)
	done, err := effects.Retry(t.Context(), f.super, effects.Filter{Source: "mail", Name: "a"})
	if err != nil || !slices.Equal(done.Waiting, []int64{calls[0].ID}) || !slices.Equal(done.GivenUp, []int64{calls[1].ID}) {
		t.Errorf("retried %+v, %v", done, err)
	}
	f.expect("a/1 pending 1, a/2 pending 0, a/3 performed 1, a/4 pending 1, a/5 pending 0")
	if _, got := f.claim(9, true, "a"); got != "a/1#2 a/2#1 a/5#1" {
		t.Errorf("claimed %s", got)
	}
}

func TestEffectsPerformedLongAgoGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, effects.Handlers{}, &source.Effect{Name: "a"})
	f.write(f.receive("x", "old", "new", "stuck"), projection.Result{})
	calls, _ := f.claim(9, true, "a")
	f.record(calls[:2], effects.Performed, 0)
	if _, err := f.super.Exec(t.Context(), "update effects set created_at = now() - interval '3 days', performed_at = performed_at - interval '3 days' where event_key <> 'new'"); err != nil {
		t.Fatal(err)
	}
	url := f.super.Config().ConnString()
	keeper := pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_reconciler"))
	if n, err := effects.Trim(t.Context(), keeper, 48*time.Hour); err != nil || n != 1 {
		t.Errorf("trimmed %d, %v; want the old one that was performed", n, err)
	}
	f.expect("a/new performed 1, a/stuck pending 1")
	if _, err := effects.Trim(t.Context(), keeper, time.Hour); err == nil {
		t.Error("a retention of an hour was taken")
	}
	if _, err := effects.Trim(t.Context(), f.db, 48*time.Hour); err == nil {
		t.Error("the processor's role may trim")
	}
}

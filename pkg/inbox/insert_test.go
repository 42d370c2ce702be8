package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

func delivery(key, body string) inbox.Delivery {
	return inbox.Delivery{Source: "answers", EventKey: key, Origin: inbox.FromDelivery, Body: []byte(body), Headers: map[string]string{"Webhook-Id": "w"}}
}

func outcomes(results []inbox.Inserted) []inbox.Outcome {
	var all []inbox.Outcome
	for _, r := range results {
		all = append(all, r.Outcome)
	}
	return all
}

func TestInsertTellsStoredDuplicateAndConflict(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	store := inbox.NewStore(pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_ingress")), time.Second)
	quarantined := delivery("q", "{")
	quarantined.Quarantine = "not JSON"
	results, err := store.Insert(t.Context(), []inbox.Delivery{
		delivery("b", "1"), delivery("a", "1"), delivery("b", "1"), delivery("b", "2"), quarantined, delivery("empty", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []inbox.Outcome{inbox.Stored, inbox.Stored, inbox.Duplicate, inbox.Conflict, inbox.Stored, inbox.Stored}
	if got := outcomes(results); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("first time: got %v, want %v", got, want)
	}
	again, err := store.Insert(t.Context(), []inbox.Delivery{delivery("a", "1"), delivery("b", "3"), delivery("c", "\x00\xff")})
	if err != nil {
		t.Fatal(err)
	}
	want = []inbox.Outcome{inbox.Duplicate, inbox.Conflict, inbox.Stored}
	if got := outcomes(again); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("second time: got %v, want %v", got, want)
	}
	if again[0].ID != results[1].ID {
		t.Errorf("the duplicate names row %d, want %d", again[0].ID, results[1].ID)
	}
	pool := pgtest.Pool(t, url)
	if body, err := inbox.Body(t.Context(), pool, results[0].ID); err != nil || string(body) != "1" {
		t.Errorf("the body of b is %q, %v: the first one must stay", body, err)
	}
	if body, err := inbox.Body(t.Context(), pool, again[2].ID); err != nil || string(body) != "\x00\xff" {
		t.Errorf("the body of c is %q, %v", body, err)
	}
	entries, err := inbox.List(t.Context(), pool, inbox.Filter{State: "quarantined", Limit: 10})
	if err != nil || len(entries) != 1 || entries[0].EventKey != "q" {
		t.Errorf("quarantined rows are %v, %v", entries, err)
	}
}

// TestWhatIsRestatedIsNoConflict has an event come in other bytes than its
// delivery's, before that and after it.
func TestWhatIsRestatedIsNoConflict(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	store := inbox.NewStore(pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_reconciler")), time.Second)
	restated := func(key, body string) inbox.Delivery {
		d := delivery(key, body)
		d.Restated = true
		return d
	}
	for n, c := range []struct {
		deliveries []inbox.Delivery
		want       []inbox.Outcome
	}{
		{[]inbox.Delivery{restated("a", "1"), delivery("b", "1")}, []inbox.Outcome{inbox.Stored, inbox.Stored}},
		{[]inbox.Delivery{delivery("a", "2"), restated("b", "2")}, []inbox.Outcome{inbox.Duplicate, inbox.Duplicate}},
		{[]inbox.Delivery{restated("a", "3"), delivery("b", "3")}, []inbox.Outcome{inbox.Duplicate, inbox.Conflict}},
		{[]inbox.Delivery{restated("c", "1"), delivery("c", "2")}, []inbox.Outcome{inbox.Stored, inbox.Duplicate}},
	} {
		results, err := store.Insert(t.Context(), c.deliveries)
		if got := outcomes(results); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d: got %v, %v; want %v", n, got, err, c.want)
		}
	}
}

func TestABadRowFailsAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	store := inbox.NewStore(pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_ingress")), time.Second)
	bad := delivery("bad", "x")
	bad.Subject = "nul \x00" // which Postgres text cannot hold
	results, err := store.Insert(t.Context(), []inbox.Delivery{delivery("1", "x"), delivery("2", "x"), bad, delivery("3", "x"), delivery("4", "x")})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if wantFailed := i == 2; (r.Outcome == inbox.Failed) != wantFailed || (r.Err != nil) != wantFailed {
			t.Errorf("delivery %d: %v, %v", i, r.Outcome, r.Err)
		}
	}
}

func TestOverlappingBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	store := inbox.NewStore(pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_ingress")), time.Second)
	const workers, keys = 8, 200
	var stored [workers]int
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			var batch []inbox.Delivery
			for k := range keys {
				batch = append(batch, delivery(fmt.Sprintf("k%d", (k*7+w*31)%keys), "same"))
			}
			results, err := store.Insert(context.Background(), batch)
			if err != nil {
				t.Error(err)
			}
			for _, r := range results {
				if r.Outcome == inbox.Stored {
					stored[w]++
				}
			}
		})
	}
	wait.Wait()
	total := 0
	for _, n := range stored {
		total += n
	}
	if total != keys {
		t.Errorf("%d keys were said to be stored, want %d", total, keys)
	}
}

func TestAnAbsentDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	store := inbox.NewStore(pgtest.Pool(t, "postgres://nobody@127.0.0.1:1/none"), time.Second)
	if _, err := store.Insert(t.Context(), []inbox.Delivery{delivery("a", "1")}); !errors.Is(err, inbox.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool := pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_processor"))
	store := inbox.NewStore(pgtest.Pool(t, url), time.Hour)
	results, err := store.Insert(t.Context(), []inbox.Delivery{delivery("1", "x"), delivery("2", "x"), delivery("3", "x"), delivery("4", "x")})
	if err != nil {
		t.Fatal(err)
	}
	ids := []int64{results[0].ID, results[1].ID, results[2].ID, results[3].ID}
	begin := func() pgx.Tx {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	first := begin()
	claimed, err := inbox.ClaimIDs(t.Context(), first, ids[:2])
	if err != nil || len(claimed) != 2 || string(claimed[0].Body) != "x" {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	second := begin()
	claimed, err = inbox.ClaimIDs(t.Context(), second, ids)
	if err != nil || len(claimed) != 2 || claimed[0].ID != ids[2] {
		t.Fatalf("beside another claim: %v, %v", claimed, err)
	}
	if claimable, err := inbox.Claimable(t.Context(), second, ids[:2]); err != nil || len(claimable) != 2 {
		t.Errorf("rows held by another: %v, %v", claimable, err)
	}
	if err := inbox.Done(t.Context(), first, ids[:1]); err != nil {
		t.Fatal(err)
	}
	failures := []inbox.Failure{{ID: ids[1], Err: errors.New("nul \x00 \xff"), RetryIn: time.Hour}}
	if err := inbox.Fail(t.Context(), first, failures); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := begin()
	if claimed, err = inbox.ClaimIDs(t.Context(), third, ids[:2]); err != nil || len(claimed) != 0 {
		t.Errorf("a processed row and one that is put off were claimed: %v, %v", claimed, err)
	}
	if claimed, err = inbox.ClaimDue(t.Context(), third, time.Unix(0, 0), 0, 10); err != nil || len(claimed) != 0 {
		t.Errorf("rows within their grace were claimed: %v, %v", claimed, err)
	}
	if err := second.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if claimed, err = inbox.ClaimDue(t.Context(), third, time.Unix(0, 0), 2*time.Hour, 10); err != nil || len(claimed) != 2 {
		t.Errorf("ahead of their grace: %v, %v; want the two that were never tried", claimed, err)
	}
	failures = []inbox.Failure{{ID: ids[2], Err: errors.New("poison"), Quarantine: true}}
	if err := inbox.Fail(t.Context(), third, failures); err != nil {
		t.Fatal(err)
	}
	if err := third.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if retried, err := inbox.Retry(t.Context(), pgtest.Pool(t, url), ids); err != nil || len(retried) != 1 || retried[0] != ids[2] {
		t.Errorf("retried %v, %v", retried, err)
	}
}

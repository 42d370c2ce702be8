package inbox_test

import (
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

func TestAWaitingRowIsPutOffForAsLongAsItHasWaited(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t, pgtest.New(t))
	stored, err := inbox.NewStore(db, 0).Insert(t.Context(), []inbox.Delivery{{Source: "s", EventKey: "k", Origin: inbox.FromDelivery}})
	if err != nil {
		t.Fatal(err)
	}
	for received, want := range map[string]string{"0s": "1s", "20s": "20s", "3 days": "10m"} {
		tx, err := db.Begin(t.Context()) // in which now() stands still
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "update inbox set received_at = now() - $1::interval", received); err != nil {
			t.Fatal(err)
		}
		if err := inbox.PutOff(t.Context(), tx, []inbox.Wait{{ID: stored[0].ID, For: "x\x00" + string([]byte{0xff})}}); err != nil {
			t.Fatal(err)
		}
		var right bool
		var state string
		if err := tx.QueryRow(t.Context(), "select next_attempt_at = now() + $1::interval, state || ' ' || attempts || ' ' || last_error from inbox", want).
			Scan(&right, &state); err != nil {
			t.Fatal(err)
		}
		if !right || state != "waiting 0 waits for x\uFFFD\uFFFD" {
			t.Errorf("received %s ago: %q, put off for %s: %t", received, state, want, right)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOrphansAreCounted(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t, pgtest.New(t))
	for _, row := range []string{"'a', '1', now() - interval '2 hours', 'waiting'", "'a', '2', now(), 'waiting'", "'a', '3', now() - interval '2 hours', 'pending'",
		"'b', '1', now() - interval '2 hours', 'waiting'"} {
		if _, err := db.Exec(t.Context(), "insert into inbox (source, event_key, received_at, state, body_hash, next_attempt_at) select *, ''::bytea, now() from (values ("+row+"::inbox_state)) v"); err != nil {
			t.Fatal(err)
		}
	}
	orphans, err := inbox.Orphans(t.Context(), db, map[string]time.Duration{"a": time.Hour, "b": 3 * time.Hour, "c": time.Hour})
	if err != nil || len(orphans) != 1 || orphans["a"] != 1 {
		t.Errorf("orphans %v, %v", orphans, err)
	}
}

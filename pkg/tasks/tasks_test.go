package tasks_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/tasks"
)

// database returns pools of one database: the superuser's, who may do what a
// submitting program does, and the reconciler's, as if behind a transaction
// pooler.
func database(t *testing.T) (super, reconciler *pgxpool.Pool) {
	t.Helper()
	url := pgtest.New(t)
	return pgtest.Pool(t, url), pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_reconciler")+"&default_query_exec_mode=exec")
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scalar[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestRecordThenFill(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	recorded, err := tasks.Record(t.Context(), db, "answers", "k")
	if err != nil || recorded.TaskID != "" || recorded.Settled {
		t.Fatalf("recorded %+v, %v", recorded, err)
	}
	if again, err := tasks.Record(t.Context(), db, "answers", "k"); err != nil || again != recorded {
		t.Errorf("again: %+v, %v", again, err)
	}
	if other, err := tasks.Record(t.Context(), db, "elsewhere", "k"); err != nil || other.ID == recorded.ID {
		t.Errorf("the same key of another source: %+v, %v", other, err)
	}
	if err := tasks.Fill(t.Context(), db, recorded.ID, "t1"); err != nil {
		t.Fatal(err)
	}
	if err := tasks.Fill(t.Context(), db, recorded.ID, "t2"); err != nil { // too late
		t.Fatal(err)
	}
	if found, err := tasks.ByKey(t.Context(), db, "answers", "k"); err != nil || found.TaskID != "t1" {
		t.Errorf("found %+v, %v", found, err)
	}
	for _, key := range []string{"", strings.Repeat("x", 513), "nul \x00"} {
		if _, err := tasks.Record(t.Context(), db, "answers", key); err == nil {
			t.Errorf("the key %.10q was taken", key)
		}
	}
}

// TestFillAnIDThatIsRegisteredByItself has both kinds of registration of one
// task, in either order and at once.
func TestFillAnIDThatIsRegisteredByItself(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	var racing sync.WaitGroup
	for n := range 50 {
		id := fmt.Sprintf("t%d", n)
		recorded, err := tasks.Record(t.Context(), db, "answers", "k"+id)
		if err != nil {
			t.Fatal(err)
		}
		racing.Go(func() {
			if _, err := tasks.Register(context.Background(), db, "answers", []string{id}); err != nil {
				t.Error(err)
			}
		})
		racing.Go(func() {
			if err := tasks.Fill(context.Background(), db, recorded.ID, id); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if n := scalar[int](t, db, "select count(distinct task_id) from submitted_tasks where settled_at is null"); n != 50 {
		t.Errorf("%d of 50 tasks are waited for", n)
	}
	if n := scalar[int](t, db, "select count(*) from submitted_tasks where task_id is null and settled_at is null"); n != 0 {
		t.Errorf("%d submissions wait for an id that another row has", n)
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	if n, err := tasks.Register(t.Context(), db, "answers", []string{"b", "a", "b"}); err != nil || n != 2 {
		t.Errorf("registered %d, %v", n, err)
	}
	if n, err := tasks.Register(t.Context(), db, "answers", []string{"c", "a"}); err != nil || n != 1 {
		t.Errorf("registered %d, %v", n, err)
	}
	for _, id := range []string{"", " \t", strings.Repeat("x", 513)} {
		if _, err := tasks.Register(t.Context(), db, "answers", []string{"d", id}); err == nil {
			t.Errorf("the id %.10q was taken", id)
		}
	}
}

func TestNoteStaysOffWhatIsKnown(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	recorded, err := tasks.Record(t.Context(), db, "answers", "k")
	if err != nil {
		t.Fatal(err)
	}
	result := func() string {
		return scalar[string](t, db, "select coalesce(last_poll_result, '') from submitted_tasks where id = $1", recorded.ID)
	}
	if err := tasks.Note(t.Context(), db, recorded.ID, "create refused:\n400 \x00\xff"+strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	if got := result(); !strings.HasPrefix(got, "create refused: 400  \uFFFDéé") || len(got) > 310 || !strings.HasSuffix(got, "é…") {
		t.Errorf("noted %q, %d bytes", got, len(got))
	}
	if err := tasks.Fill(t.Context(), db, recorded.ID, "t1"); err != nil {
		t.Fatal(err)
	}
	before := result()
	if err := tasks.Note(t.Context(), db, recorded.ID, "late"); err != nil || result() != before {
		t.Errorf("after the id is known: %q, %v", result(), err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	exec(t, db, `insert into submitted_tasks (source, task_id, idempotency_key, created_at, settled_at, needs_investigation_at) values
('answers', 'old', null, now() - interval '3 hours', null, now()),
('answers', null, 'young', now() - interval '1 minute', null, null),
('answers', 'settled', null, now() - interval '2 hours', now(), null),
('other', 'theirs', null, now() - interval '4 hours', null, null)`)
	for _, c := range []struct {
		filter tasks.Filter
		want   []string
	}{
		{tasks.Filter{Limit: 10}, []string{"theirs", "old", "young"}},
		{tasks.Filter{Limit: 2}, []string{"theirs", "old"}},
		{tasks.Filter{Source: "answers", Settled: true, Limit: 10}, []string{"old", "settled", "young"}},
		{tasks.Filter{NeedsInvestigation: true, Limit: 10}, []string{"old"}},
		{tasks.Filter{Source: "answers", OlderThan: time.Hour, Limit: 10}, []string{"old"}},
	} {
		list, err := tasks.List(t.Context(), db, c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range list {
			if task.TaskID != nil {
				got = append(got, *task.TaskID)
			} else {
				got = append(got, *task.IdempotencyKey)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.filter, got, c.want)
		}
	}
}

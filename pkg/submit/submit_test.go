package submit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/answers"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/submit"
)

func create(key string) answerline.Create {
	return answerline.Create{TaskType: "answer", IdempotencyKey: key, Payload: []byte(`{"prompt":"x"}`)}
}

// start returns a provider, and a submitter that is short of patience and may
// do what docs/reconciling.md grants.
func start(t *testing.T) (*provider, *submit.Submitter, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.New(t)
	super := pgtest.Pool(t, url)
	role := "submitter_" + strings.ToLower(strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	for _, sql := range []string{
		"create role " + role + " login password 'x'",
		"grant usage on schema public to " + role,
		"grant select, insert, update on submitted_tasks to " + role,
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User, config.ConnConfig.Password = role, "x"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	p := newProvider()
	t.Cleanup(p.Close)
	return p, &submit.Submitter{DB: pool, Source: "answers", Creator: p.client(), Patience: 10 * time.Second}, super
}

// recorded returns what the row of a key says: its task id, and the note.
func recorded(t *testing.T, db *pgxpool.Pool, key string) (taskID, note string) {
	t.Helper()
	err := db.QueryRow(t.Context(), "select coalesce(task_id, ''), coalesce(last_poll_result, '') from submitted_tasks where idempotency_key = $1", key).Scan(&taskID, &note)
	if err != nil {
		t.Fatal(err)
	}
	return taskID, note
}

func TestSubmitAndAgain(t *testing.T) {
	t.Parallel()
	p, s, super := start(t)
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{TaskID: "task_1"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{TaskID: "task_1", Existing: true}) {
		t.Errorf("again: %+v, %v", got, err)
	}
	if p.creates != 1 {
		t.Errorf("the provider was asked %d times, want once", p.creates)
	}
	if id, _ := recorded(t, super, "k"); id != "task_1" {
		t.Errorf("recorded is %q", id)
	}
}

// TestACreateThatIsNotAnsweredStaysOpenForTheDelivery is the reference's note
// on task creation: time-out, 409 on the retry, and the delivery tells the id.
func TestACreateThatIsNotAnsweredStaysOpenForTheDelivery(t *testing.T) {
	t.Parallel()
	p, s, super := start(t)
	p.withhold = 1
	pending := submit.Result{Existing: true, Pending: true}
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != pending {
		t.Fatalf("got %+v, %v; want %+v", got, err, pending)
	}
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != pending {
		t.Errorf("again: %+v, %v", got, err)
	}
	deliver(t, super, fmt.Sprintf(`{"task":{"id":%q,"status":"COMPLETED","createdAt":"2026-01-02T03:04:05Z","idempotencyKey":"k"}}`, p.ids["k"]))
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{TaskID: "task_1", Existing: true}) {
		t.Errorf("after the delivery: %+v, %v", got, err)
	}
	if len(p.ids) != 1 || p.creates != 3 {
		t.Errorf("%d tasks by %d creates; want 1 by 3", len(p.ids), p.creates)
	}
}

// deliver puts a delivery into the inbox and applies it as a processor does.
func deliver(t *testing.T, db *pgxpool.Pool, body string) {
	t.Helper()
	results, err := inbox.NewStore(db, 0).Insert(t.Context(), []inbox.Delivery{{Source: "answers", EventKey: "task_1", Origin: inbox.FromDelivery, Body: []byte(body)}})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		rows, err := inbox.ClaimIDs(t.Context(), tx, []int64{results[0].ID})
		if err != nil {
			return err
		}
		result, err := answers.Projection{}.Apply(t.Context(), tx, rows)
		return errors.Join(err, result.Failed[results[0].ID])
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACrashBetweenRecordAndCreate(t *testing.T) {
	t.Parallel()
	_, s, super := start(t)
	if _, err := super.Exec(t.Context(), "insert into submitted_tasks (idempotency_key) values ('k')"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{TaskID: "task_1"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestACallerThatGivesUpAfterTheCreate has the id written down all the same.
func TestACallerThatGivesUpAfterTheCreate(t *testing.T) {
	t.Parallel()
	_, s, super := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Creator = cancelling{s.Creator, cancel}
	if got, err := s.Submit(ctx, create("k")); err != nil || got.TaskID != "task_1" {
		t.Errorf("got %+v, %v", got, err)
	}
	if id, _ := recorded(t, super, "k"); id != "task_1" {
		t.Errorf("recorded is %q", id)
	}
}

// cancelling cancels its caller's context as soon as a task is created.
type cancelling struct {
	submit.Creator
	cancel func()
}

func (c cancelling) CreateTask(ctx context.Context, create answerline.Create) (answerline.Task, error) {
	defer c.cancel()
	return c.Creator.CreateTask(ctx, create)
}

// TestTheKeyIsRecordedBeforeTheTaskIsCreated looks while the create is under way.
func TestTheKeyIsRecordedBeforeTheTaskIsCreated(t *testing.T) {
	t.Parallel()
	_, s, super := start(t)
	s.Creator = looking{s.Creator, func() {
		if id, _ := recorded(t, super, "k"); id != "" {
			t.Errorf("the id is %q before there is one", id)
		}
	}}
	if _, err := s.Submit(t.Context(), create("k")); err != nil {
		t.Error(err)
	}
}

type looking struct {
	submit.Creator
	look func()
}

func (l looking) CreateTask(ctx context.Context, create answerline.Create) (answerline.Task, error) {
	l.look()
	return l.Creator.CreateTask(ctx, create)
}

func TestWhatPassesIsRetried(t *testing.T) {
	t.Parallel()
	p, s, _ := start(t)
	p.answers = []string{"500", "429 1", "503"}
	began := time.Now()
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{TaskID: "task_1"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("it took %s, which does not honour Retry-After", took)
	}
	if p.creates != 4 {
		t.Errorf("%d creates, want 4", p.creates)
	}
}

func TestWhatDoesNotPassIsToldAndNoted(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{"400": 1, "401": 1, "409": 1, "429 3600": 1} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			p, s, super := start(t)
			p.answers = []string{answer}
			_, err := s.Submit(t.Context(), create("k"))
			var refused *answerline.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "CODE_"+answer[:3]) {
				t.Errorf("got %v", err)
			}
			if p.creates != want {
				t.Errorf("%d creates, want %d", p.creates, want)
			}
			if id, note := recorded(t, super, "k"); id != "" || !strings.HasPrefix(note, "create: ") || !strings.Contains(note, "CODE_"+answer[:3]) {
				t.Errorf("recorded %q, noted %q", id, note)
			}
			if got, err := s.Submit(t.Context(), create("k")); err != nil || got.TaskID != "task_1" {
				t.Errorf("once mended: %+v, %v", got, err)
			}
		})
	}
}

func TestPatienceAndContextBoundTheRetries(t *testing.T) {
	t.Parallel()
	p, s, _ := start(t)
	p.Close()
	s.Patience = 500 * time.Millisecond
	if _, err := s.Submit(t.Context(), create("k")); !answerline.IsTemporary(err) {
		t.Errorf("out of patience: %v", err)
	}
	s.Patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := s.Submit(ctx, create("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: %v", err)
	}
}

func TestConcurrentCallersOfOneKeyMakeOneTask(t *testing.T) {
	t.Parallel()
	p, s, super := start(t)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			got, err := s.Submit(t.Context(), create("k"))
			if err != nil || got.TaskID != "task_1" && !got.Pending {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	callers.Wait()
	if id, _ := recorded(t, super, "k"); id != "task_1" || len(p.ids) != 1 {
		t.Errorf("recorded %q of %d tasks", id, len(p.ids))
	}
}

// TestAResultThatCameIsNotAskedForAgain matters once the provider has forgotten
// the key: creating again would make a second task.
func TestAResultThatCameIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	p, s, super := start(t)
	if _, err := super.Exec(t.Context(), "insert into submitted_tasks (idempotency_key, settled_at) values ('k', now())"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Submit(t.Context(), create("k")); err != nil || got != (submit.Result{Existing: true}) || p.creates != 0 {
		t.Errorf("got %+v, %v after %d creates", got, err, p.creates)
	}
}

func TestWhatCannotBeSubmittedSafelyIsRefused(t *testing.T) {
	t.Parallel()
	p, s, super := start(t)
	if _, err := s.Submit(t.Context(), create("")); !errors.Is(err, submit.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	tx, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	inTransaction := *s
	inTransaction.DB = tx
	if _, err := inTransaction.Submit(t.Context(), create("k")); !errors.Is(err, submit.ErrTransaction) {
		t.Errorf("in a transaction: %v", err)
	}
	noDatabase := *s
	noDatabase.DB = pgtest.Pool(t, "postgres://nobody@127.0.0.1:1/none")
	var connectError *pgconn.ConnectError
	if _, err := noDatabase.Submit(t.Context(), create("k")); !errors.As(err, &connectError) {
		t.Errorf("without a database: %v", err)
	}
	if p.creates != 0 {
		t.Errorf("%d tasks were created unrecorded", p.creates)
	}
	if n, err := s.Register(t.Context(), "t1", "t2", "t1"); err != nil || n != 2 {
		t.Errorf("registered %d, %v", n, err)
	}
}

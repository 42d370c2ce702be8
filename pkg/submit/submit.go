// Package submit creates tasks at a provider in such a way that none is lost
// track of: it records the idempotency key first, then creates the task, then
// fills in its id. Whatever is interrupted, submitting again with the same key
// goes on where it stopped, and never makes a second task.
//
//	key recorded ──▶ created ──▶ id filled in ──▶ result in the inbox
//	     │               │             ▲
//	     │               └─not known───┘ by the delivery, which carries the key
//	     └─ submitting again with the key goes on from here
//
// A create that was not answered may have succeeded. Trying again then meets
// the provider's 409 RESOURCE_CONFLICT, which does not tell the id: the
// submission stays open, and the delivery, which carries the key, fills it in.
// One that never comes shows: it needs investigation once the horizon is past.
package submit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/tasks"
)

// Creator creates tasks; *answerline.Client is one.
type Creator interface {
	CreateTask(ctx context.Context, create answerline.Create) (answerline.Task, error)
}

// Submitter submits tasks of one source. It is safe for concurrent use when its
// DB is, as a pool is.
type Submitter struct {
	// DB is a pool or a connection whose role may select, insert and update
	// submitted_tasks. A transaction will not do: a key that is not committed
	// before the task is created is not recorded first.
	DB      tasks.DB
	Source  string // the name that the source has in catchwater.yaml
	Creator Creator
	// Patience bounds the retries of one create; 2 minutes when zero. The
	// context bounds them as well.
	Patience time.Duration
}

const (
	defaultPatience = 2 * time.Minute
	firstRetry      = 200 * time.Millisecond
	slowestRetry    = 15 * time.Second
	// fillTimeout bounds writing down what the provider said, which is done even
	// when the caller has given up by then.
	fillTimeout = 10 * time.Second
)

// Result is what has become of a submission.
type Result struct {
	// TaskID is empty while only the provider knows it.
	TaskID string
	// Existing says that the task had been created before, or by another.
	Existing bool
	// Pending says that the task exists and its id is not known: its delivery
	// will tell.
	Pending bool
}

var (
	// ErrNoKey says that a task has no idempotency key. It always needs one: a
	// task without could neither be submitted safely nor be told whose job it is.
	ErrNoKey = errors.New("an idempotency key is needed: derive it from what the task means, such as prompt, market and day")
	// ErrTransaction says that a Submitter was given a transaction.
	ErrTransaction = errors.New("the key must be committed before the task is created: use a pool or a connection, not a transaction")
)

// Submit creates a task, or finds that it has been created. It retries what may
// pass (no answer, 408, 429, 5xx) within its patience. After any error the same
// call may be made again, by this process or another.
//
// An error for which the key stays recorded without a task, such as a payload
// that the provider refuses, shows in the list of tasks with what the provider
// said, until it is submitted with success or the row is deleted.
func (s *Submitter) Submit(ctx context.Context, create answerline.Create) (Result, error) {
	if create.IdempotencyKey == "" {
		return Result{}, fmt.Errorf("submit a task: %w", ErrNoKey)
	}
	if _, is := s.DB.(pgx.Tx); is {
		return Result{}, fmt.Errorf("submit task %q: %w", create.IdempotencyKey, ErrTransaction)
	}
	recorded, err := tasks.Record(ctx, s.DB, s.Source, create.IdempotencyKey)
	if err != nil {
		return Result{}, fmt.Errorf("submit a task: %w", err)
	}
	if recorded.TaskID != "" || recorded.Settled {
		return Result{TaskID: recorded.TaskID, Existing: true}, nil
	}
	task, err := s.create(ctx, create)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillTimeout)
	defer cancel()
	if answerline.IsConflict(err) {
		return s.existing(ctx, create.IdempotencyKey)
	}
	if err != nil {
		// Best effort: what matters is recorded, and the caller has the error.
		_ = tasks.Note(ctx, s.DB, recorded.ID, "create: "+err.Error())
		return Result{}, fmt.Errorf("submit task %q: %w", create.IdempotencyKey, err)
	}
	if err := tasks.Fill(ctx, s.DB, recorded.ID, task.ID); err != nil {
		return Result{}, fmt.Errorf("submit task %q: it is created as %q; submit it again, or let its delivery tell: %w", create.IdempotencyKey, task.ID, err)
	}
	return Result{TaskID: task.ID}, nil
}

// existing looks once more for the id of a task that the provider has: another
// caller may have filled it in, or the delivery.
func (s *Submitter) existing(ctx context.Context, key string) (Result, error) {
	recorded, err := tasks.ByKey(ctx, s.DB, s.Source, key)
	if err != nil {
		return Result{}, fmt.Errorf("submit task %q: the provider has it: %w", key, err)
	}
	return Result{TaskID: recorded.TaskID, Existing: true, Pending: recorded.TaskID == "" && !recorded.Settled}, nil
}

// Register notes tasks that were created elsewhere, so that their results are
// waited for, and returns how many were new. Their age counts from now.
func (s *Submitter) Register(ctx context.Context, taskIDs ...string) (int64, error) {
	return tasks.Register(ctx, s.DB, s.Source, taskIDs)
}

func (s *Submitter) create(ctx context.Context, create answerline.Create) (answerline.Task, error) {
	patience := s.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = firstRetry, slowestRetry
	return backoff.Retry(ctx, func() (answerline.Task, error) {
		task, err := s.Creator.CreateTask(ctx, create)
		var apiError *answerline.Error
		switch {
		case err == nil:
			return task, nil
		case !answerline.IsTemporary(err):
			return task, backoff.Permanent(err)
		case errors.As(err, &apiError) && apiError.RetryAfter > 0:
			return task, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(int(math.Ceil(apiError.RetryAfter.Seconds()))))
		}
		return task, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(patience))
}

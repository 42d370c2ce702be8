// Package submit creates tasks at a provider in such a way that none is lost
// track of: it records the idempotency key first, then creates the task, then
// fills in its id. Whatever is interrupted, submitting again with the same key
// goes on where it stopped, and never makes a second task.
//
// A create that was not answered may have succeeded. Trying again then meets
// the provider's 409 RESOURCE_CONFLICT, which does not tell the id: the
// submission stays open, and the delivery, which carries the key, fills it in.
package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/tasks"
)

// Creator creates tasks; *answerline.Client is one.
type Creator interface {
	CreateTask(ctx context.Context, create answerline.Create) (answerline.Task, error)
}

// Submitter submits tasks of one source. It is safe for concurrent use.
type Submitter struct {
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
)

// Result is what has become of a submission.
type Result struct {
	// TaskID is empty while only the provider knows it: the task exists, and
	// its delivery will tell.
	TaskID string
	// Existing says that the task had been created before.
	Existing bool
}

// ErrNoKey says that a task has no idempotency key. It always needs one: a
// task without could neither be submitted safely nor be told whose job it is.
var ErrNoKey = errors.New("an idempotency key is needed: derive it from what the task means, such as prompt, market and day")

// Submit creates a task, or finds that it has been created. It retries what may
// pass (no answer, 429, 5xx); after an error the same call may be made again.
func (s *Submitter) Submit(ctx context.Context, create answerline.Create) (Result, error) {
	if create.IdempotencyKey == "" {
		return Result{}, fmt.Errorf("submit a task: %w", ErrNoKey)
	}
	recorded, err := tasks.Record(ctx, s.DB, s.Source, create.IdempotencyKey)
	if err != nil {
		return Result{}, fmt.Errorf("submit a task: %w", err)
	}
	if recorded.TaskID != "" {
		return Result{TaskID: recorded.TaskID, Existing: true}, nil
	}
	task, err := s.create(ctx, create)
	if answerline.IsConflict(err) {
		return Result{Existing: true}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("submit task %q: %w", create.IdempotencyKey, err)
	}
	if err := tasks.Fill(ctx, s.DB, recorded.ID, task.ID); err != nil {
		return Result{}, fmt.Errorf("submit task %q: %w", create.IdempotencyKey, err)
	}
	return Result{TaskID: task.ID}, nil
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
			return task, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(int(apiError.RetryAfter.Seconds())))
		}
		return task, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(patience))
}

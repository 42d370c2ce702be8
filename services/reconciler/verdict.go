package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

const (
	// pauseFor429 is the pause when the provider does not say how long.
	pauseFor429 = time.Minute
	// pauseForKey is the pause when the provider refuses the API key.
	pauseForKey = 5 * time.Minute
	// firstErrorRetry is the wait after a first poll without an answer; it
	// doubles up to the source's interval, or rare past the horizon.
	firstErrorRetry = 5 * time.Second
)

// The kinds of results, for the metric: one of few.
const (
	kindFinal        = "final"
	kindNotFinal     = "not_final"
	kindNotFound     = "not_found"
	kindTooMany      = "too_many_requests"
	kindUnauthorized = "unauthorized"
	kindServerError  = "server_error"
	kindNoAnswer     = "no_answer"
	kindRefused      = "refused"
	kindUnusable     = "unusable" // an answer that cannot be the task's result
)

// verdict is what a poll comes to.
type verdict struct {
	label     string
	result    string // for the record
	settled   bool
	recovered bool // it was this poll that brought the result
	// next is the time until the task is asked for again, rare the same past the
	// horizon, and backOff where the wait begins after an error.
	next, rare, backOff time.Duration
	pause               time.Duration // of the whole source, when more than 0
	level               slog.Level
}

// answered deals with an answer about a task. Only a final one says anything
// for good: a task may go from PROCESSING back to QUEUED.
func (r *reconciler) answered(ctx context.Context, j job, task answerline.Task, body []byte) (verdict, error) {
	settings := j.provider.source.Reconcile
	unusable := func(why string) (verdict, error) {
		return verdict{label: kindUnusable, result: why, next: settings.Rare, rare: settings.Rare, level: slog.LevelError}, nil
	}
	if task.ID != j.task.TaskID {
		return unusable(fmt.Sprintf("the answer is about task %.80q", task.ID))
	}
	if !task.Final() {
		return verdict{label: kindNotFinal, result: task.Status, next: settings.Interval, rare: settings.Rare, level: slog.LevelDebug}, nil
	}
	// The same code as for a delivery, so that the key is the one that its
	// delivery has, or would have had. Whatever is read otherwise there than here
	// must not be stored under another key.
	identity := j.provider.source.Identify(http.Header{}, body)
	switch {
	case identity.Test:
		return unusable("the answer is marked as a test")
	case identity.Quarantine != "":
		return unusable(identity.Quarantine)
	case identity.EventKey != j.task.TaskID:
		return unusable(fmt.Sprintf("the source's settings make %.80q the key of the answer, not the task id", identity.EventKey))
	}
	stored, err := r.store.Insert(ctx, []inbox.Delivery{{
		Source: j.provider.source.Name, EventKey: identity.EventKey, EventType: identity.EventType, Subject: identity.Subject,
		OccurredAt: identity.OccurredAt, Origin: inbox.FromReconcile, Body: body,
	}})
	if err != nil {
		return verdict{}, err
	}
	if stored[0].Outcome == inbox.Failed {
		return unusable(stored[0].Err.Error())
	}
	recovered := stored[0].Outcome == inbox.Stored
	if recovered {
		r.metrics.recovered.WithLabelValues(j.provider.source.Name).Inc()
		// Not told, the processors find the row by themselves.
		_ = r.bus.Announce(&busv1.Announcement{InboxId: stored[0].ID, Source: j.provider.source.Name, EventKey: identity.EventKey}, "")
	}
	return verdict{label: kindFinal, result: task.Status, settled: true, recovered: recovered, level: slog.LevelInfo}, nil
}

// refused deals with an error of the API, or no answer at all.
func refused(settings *source.Reconcile, err error) verdict {
	errorAgain := verdict{
		label: kindNoAnswer, result: err.Error(), next: settings.Interval, rare: max(settings.Interval, settings.Rare),
		backOff: firstErrorRetry, level: slog.LevelWarn,
	}
	rarely := func(label, result string, level slog.Level) verdict {
		return verdict{label: label, result: result, next: settings.Rare, rare: settings.Rare, level: level}
	}
	paused := func(label, result string, pause time.Duration, level slog.Level) verdict {
		return verdict{label: label, result: result, next: pause, rare: pause, pause: pause, level: level}
	}
	var tooLarge *answerline.TooLargeError
	if errors.As(err, &tooLarge) {
		return rarely(kindUnusable, tooLarge.Error()+"; raise the source's max_body", slog.LevelError)
	}
	var apiError *answerline.Error
	if !errors.As(err, &apiError) {
		return errorAgain
	}
	result := fmt.Sprint(apiError.Status)
	if apiError.Code != "" {
		result += " " + apiError.Code
	}
	switch {
	case apiError.Status == http.StatusTooManyRequests && apiError.RetryAfter > 0:
		return paused(kindTooMany, result, apiError.RetryAfter, slog.LevelWarn)
	case apiError.Status == http.StatusTooManyRequests:
		return paused(kindTooMany, result, pauseFor429, slog.LevelWarn)
	case apiError.Status == http.StatusUnauthorized, apiError.Status == http.StatusForbidden:
		return paused(kindUnauthorized, result, pauseForKey, slog.LevelError)
	case apiError.Status == http.StatusNotFound:
		return rarely(kindNotFound, result, slog.LevelWarn)
	case answerline.IsTemporary(err):
		errorAgain.label, errorAgain.result = kindServerError, result
		return errorAgain
	}
	return rarely(kindRefused, result, slog.LevelError)
}

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/catchwater/catchwater/pkg/httpapi"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
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
	kindUnusable     = "unusable" // an answer of which nothing, or not all, can be made
)

var kinds = []string{
	kindFinal, kindNotFinal, kindNotFound, kindTooMany, kindUnauthorized, kindServerError, kindNoAnswer, kindRefused, kindUnusable,
}

// refusedKey begins the reasons of pauses for an API key that was refused.
var refusedKey = []string{fmt.Sprint(http.StatusUnauthorized), fmt.Sprint(http.StatusForbidden)}

// verdict is what a poll comes to.
type verdict struct {
	label     string
	result    string // for the record
	settled   bool
	recovered bool // it was this poll that brought what is new
	// next is the time until the subject is asked for again, rare the same past the
	// horizon, and backOff where the wait begins after an error.
	next, rare, backOff time.Duration
	pause               time.Duration // of the whole source, when more than 0
	level               slog.Level
}

// answered deals with what the provider says of a subject. Only what is final
// says anything for good: a task may go from PROCESSING back to QUEUED.
func (r *reconciler) answered(ctx context.Context, j job, said answer) (verdict, error) {
	settings := j.provider.source.Reconcile
	unusable := func(why string) (verdict, error) {
		return verdict{label: kindUnusable, result: why, next: settings.Rare, rare: settings.Rare, level: slog.LevelError}, nil
	}
	recovered, failed, err := r.keep(ctx, j, said)
	switch {
	case err != nil:
		return verdict{}, err
	case failed != nil:
		return unusable(failed.Error())
	case said.final:
		return verdict{label: kindFinal, result: said.status, settled: true, recovered: recovered, level: slog.LevelInfo}, nil
	case said.unusable != "":
		return unusable(said.unusable)
	}
	level := slog.LevelDebug
	if recovered {
		level = slog.LevelInfo
	}
	return verdict{
		label: kindNotFinal, result: said.status, recovered: recovered, next: settings.Interval, rare: settings.Rare, level: level,
	}, nil
}

// keep puts what was learnt into the inbox, and announces it. It returns
// whether any of it is new, and what the database refuses.
func (r *reconciler) keep(ctx context.Context, j job, said answer) (recovered bool, failed, err error) {
	if len(said.events) == 0 {
		return false, nil, nil
	}
	name := j.provider.source.Name
	deliveries := make([]inbox.Delivery, 0, len(said.events))
	for _, event := range said.events {
		deliveries = append(deliveries, inbox.Delivery{
			Source: name, EventKey: event.EventKey, EventType: event.EventType, Subject: event.Subject,
			OccurredAt: event.OccurredAt, Origin: inbox.FromReconcile, Body: event.Body, Restated: said.restated,
			Traceparent: tracing.Traceparent(ctx),
		})
	}
	stored, err := r.store.Insert(ctx, deliveries)
	if err != nil {
		return false, nil, err
	}
	for i, result := range stored {
		switch result.Outcome {
		case inbox.Failed:
			failed = result.Err
		case inbox.Stored:
			recovered = true
			r.metrics.recovered.WithLabelValues(name).Inc()
			// Not told, the processors find the row by themselves.
			_ = r.bus.Announce(ctx, &busv1.Announcement{InboxId: result.ID, Source: name, EventKey: deliveries[i].EventKey})
		}
	}
	return recovered, failed, nil
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
	var tooLarge *httpapi.TooLargeError
	if errors.As(err, &tooLarge) {
		return rarely(kindUnusable, tooLarge.Error()+"; raise the source's max_body", slog.LevelError)
	}
	var apiError *httpapi.Error
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
		v := paused(kindUnauthorized, result, pauseForKey, slog.LevelError)
		v.next, v.rare = firstErrorRetry, firstErrorRetry // the pause may end early: heedKeys
		return v
	case apiError.Status == http.StatusNotFound:
		return rarely(kindNotFound, result, slog.LevelWarn)
	case httpapi.IsTemporary(err):
		errorAgain.label, errorAgain.result = kindServerError, result
		return errorAgain
	}
	return rarely(kindRefused, result, slog.LevelError)
}

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/tasks"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

const (
	// heedFor is how old a request for a poll may be: an older one has been, or
	// will be, handed out again.
	heedFor = 20 * time.Second
	// longestSlotWait is how far ahead a slot may lie to be worth waiting for.
	longestSlotWait = 15 * time.Second
	// pauseFor429 is the pause when the provider does not say how long.
	pauseFor429 = time.Minute
	// pauseForKey is the pause when the provider refuses the API key.
	pauseForKey = 5 * time.Minute
	// firstErrorRetry is the wait after a first poll without an answer; it
	// doubles up to the source's interval.
	firstErrorRetry = 5 * time.Second
)

// work takes requests for polls until ctx ends.
func (r *reconciler) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-r.consumer.Messages():
			r.answer(ctx, msg)
		}
	}
}

// answer makes the poll that a message asks for. The message is acknowledged
// first: should this process die now, the leader hands the task out again.
func (r *reconciler) answer(ctx context.Context, msg jetstream.Msg) {
	_ = msg.Ack()
	var request busv1.PollRequest
	if err := proto.Unmarshal(msg.Data(), &request); err != nil {
		r.log.Warn("dropping a message that is no request for a poll", slog.String("subject", msg.Subject()))
		return
	}
	if meta, err := msg.Metadata(); err == nil && time.Since(meta.Timestamp) > heedFor {
		return
	}
	for _, asked := range r.asked {
		if asked.source.Name == request.GetSource() {
			r.poll(ctx, asked, tasks.Overdue{ID: request.GetSubmittedTaskId(), TaskID: request.GetTaskId()})
		}
	}
}

// poll asks the provider for one task, when its turn has come, and does what
// the answer calls for.
func (r *reconciler) poll(ctx context.Context, asked *asked, task tasks.Overdue) {
	log := r.log.With(slog.String("source", asked.source.Name), slog.String("task_id", task.TaskID))
	if err := r.pollOnce(ctx, asked, task, log); err != nil && ctx.Err() == nil {
		log.Warn("a poll could not be made or recorded; it is made again", slog.Any("error", err))
	}
}

func (r *reconciler) pollOnce(ctx context.Context, asked *asked, task tasks.Overdue, log *slog.Logger) error {
	name := asked.source.Name
	slot, err := tasks.TakeSlot(ctx, r.db, name, time.Duration(float64(time.Second)/asked.source.Reconcile.Rate))
	switch {
	case err != nil:
		return err
	case !slot.PausedUntil.IsZero():
		return tasks.Postpone(ctx, r.db, task.ID, slot.PausedUntil)
	case slot.Wait > longestSlotWait:
		return nil // handed out again when its time is up
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(slot.Wait):
	}
	if open, err := tasks.Open(ctx, r.db, task.ID); err != nil || !open {
		return err // its delivery has come
	}
	// A poll under way is finished when the service stops; its time-out bounds it.
	ctx = context.WithoutCancel(ctx)
	got, body, err := asked.client.GetTask(ctx, task.TaskID)
	var result verdict
	if err != nil {
		result = r.refused(asked, task, err)
	} else if result, err = r.answered(ctx, asked, task, got, body); err != nil {
		return err
	}
	return r.record(ctx, asked, task, result, log)
}

// verdict is what a poll comes to.
type verdict struct {
	label   string // for the metric: one of few
	result  string // for the record
	settled bool
	next    time.Duration // until the task is asked for again
	pause   time.Duration // of the whole source, when more than 0
	level   slog.Level
}

// answered deals with an answer. Only final ones say anything for good.
func (r *reconciler) answered(ctx context.Context, asked *asked, task tasks.Overdue, got answerline.Task, body []byte) (verdict, error) {
	again := asked.source.Reconcile.Interval
	if got.ID != task.TaskID {
		return verdict{label: "wrong_task", result: fmt.Sprintf("the answer is about task %.80q", got.ID), next: again, level: slog.LevelError}, nil
	}
	if !got.Final() {
		return verdict{label: "not_final", result: got.Status, next: again, level: slog.LevelDebug}, nil
	}
	outcome, err := r.feed(ctx, asked, body)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{label: "final", result: got.Status, settled: true, level: slog.LevelInfo}
	if outcome == inbox.Stored {
		r.metrics.recovered.WithLabelValues(asked.source.Name).Inc()
	}
	return v, nil
}

// feed puts a final answer into the inbox, under the key that its delivery has
// or would have had.
func (r *reconciler) feed(ctx context.Context, asked *asked, body []byte) (inbox.Outcome, error) {
	identity := asked.source.Identify(http.Header{}, body)
	if identity.Test {
		return inbox.Failed, errors.New("the provider answers with a test delivery's body")
	}
	results, err := r.store.Insert(ctx, []inbox.Delivery{{
		Source: asked.source.Name, EventKey: identity.EventKey, EventType: identity.EventType, Subject: identity.Subject,
		OccurredAt: identity.OccurredAt, Origin: inbox.FromReconcile, Body: body, Quarantine: identity.Quarantine,
	}})
	if err != nil {
		return inbox.Failed, err
	}
	if results[0].Outcome == inbox.Stored && identity.Quarantine == "" {
		// Not told, the processors find the row by themselves.
		_ = r.bus.Announce(&busv1.Announcement{InboxId: results[0].ID, Source: asked.source.Name, EventKey: identity.EventKey}, "")
	}
	return results[0].Outcome, results[0].Err
}

// refused deals with an error of the API, or no answer at all.
func (r *reconciler) refused(asked *asked, task tasks.Overdue, err error) verdict {
	settings := asked.source.Reconcile
	v := verdict{label: "no_answer", result: err.Error(), next: r.backOff(task.ID, settings.Interval), level: slog.LevelWarn}
	var apiError *answerline.Error
	if !errors.As(err, &apiError) {
		return v
	}
	v.result = fmt.Sprint(apiError.Status)
	if apiError.Code != "" {
		v.result += " " + apiError.Code
	}
	switch {
	case apiError.Status == http.StatusTooManyRequests:
		v.label, v.pause = "too_many_requests", pauseFor429
		if apiError.RetryAfter > 0 {
			v.pause = apiError.RetryAfter
		}
		v.next = v.pause
	case apiError.Status == http.StatusNotFound:
		v.label, v.next = "not_found", settings.Rare
	case apiError.Status == http.StatusUnauthorized || apiError.Status == http.StatusForbidden:
		v.label, v.level, v.pause, v.next = "unauthorized", slog.LevelError, pauseForKey, pauseForKey
	case apiError.Status >= 500:
		v.label = "server_error"
	default:
		v.label, v.next, v.level = "refused", settings.Rare, slog.LevelError
	}
	return v
}

// backOff is the wait after a poll without an answer.
func (r *reconciler) backOff(id int64, longest time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[id] = min(r.errors[id]+1, 20)
	wait := min(firstErrorRetry<<(r.errors[id]-1), longest)
	return wait - rand.N(wait/2+1)
}

// record writes a poll down.
func (r *reconciler) record(ctx context.Context, asked *asked, task tasks.Overdue, v verdict, log *slog.Logger) error {
	name, settings := asked.source.Name, asked.source.Reconcile
	if v.label != "no_answer" && v.label != "server_error" {
		r.mu.Lock()
		delete(r.errors, task.ID)
		r.mu.Unlock()
	}
	r.metrics.polls.WithLabelValues(name, v.label).Inc()
	if v.pause > 0 {
		if err := tasks.Pause(ctx, r.db, name, time.Now().Add(v.pause), v.result); err != nil {
			return err
		}
	}
	polls, err := tasks.Polled(ctx, r.db, tasks.Poll{
		ID: task.ID, Result: v.result, Settled: v.settled, Next: v.next, Rare: settings.Rare, Horizon: settings.Horizon,
	})
	if err != nil {
		return err
	}
	log.Log(ctx, v.level, "asked the provider for a task", slog.String("result", v.result), slog.Int("polls", polls),
		slog.Bool("settled", v.settled), slog.Duration("pause", v.pause), slog.Duration("again_in", v.next))
	return nil
}

package reconciler

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/tasks"
	"github.com/catchwater/catchwater/pkg/tracing"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

// longestSlotWait is how far ahead a slot may lie to be worth waiting for.
const longestSlotWait = 15 * time.Second

// job is one poll to be made.
type job struct {
	provider    *provider
	task        tasks.Overdue
	traceparent string // of the span that handed it out, empty where none did
}

// work makes polls until ctx ends; the one under way then has until polling
// ends.
func (r *reconciler) work(ctx, polling context.Context) {
	for {
		var j job
		select {
		case <-ctx.Done():
			return
		case j = <-r.own:
		case msg := <-r.consumer.Messages():
			// Acknowledged before the poll: should this process die now, the task
			// is handed out again.
			_ = msg.Ack()
			var ok bool
			if j, ok = r.read(msg); !ok {
				continue
			}
		}
		if err := r.poll(ctx, polling, j); err != nil && polling.Err() == nil {
			j.log().Warn("a poll could not be made or recorded; the "+j.provider.subject.noun+" is handed out again", slog.Any("error", err))
		}
	}
}

// read returns the job that a message asks for.
func (r *reconciler) read(msg jetstream.Msg) (job, bool) {
	var request busv1.PollRequest
	if err := proto.Unmarshal(msg.Data(), &request); err != nil {
		r.log.Warn("dropping a message that is no request for a poll", slog.String("subject", msg.Subject()), slog.Any("error", err))
		return job{}, false
	}
	for _, p := range r.providers {
		if p.source.Name == request.GetSource() {
			return job{provider: p, task: tasks.Overdue{ID: request.GetSubmittedTaskId(), TaskID: request.GetTaskId()}, traceparent: bus.Traceparent(msg)}, true
		}
	}
	r.log.Warn("dropping a request for a poll of a source that is not in the configuration", slog.String("source", request.GetSource()))
	return job{}, false
}

func (j job) log() *slog.Logger {
	return j.provider.log.With(slog.String(j.provider.subject.id, j.task.TaskID))
}

// poll asks the provider for one subject, when its turn has come, and writes down
// what comes of it.
func (r *reconciler) poll(ctx, polling context.Context, j job) error {
	if mine, err := r.awaitTurn(ctx, j); err != nil || !mine {
		return err
	}
	polling, span := r.beginPoll(polling, j)
	defer span.End()
	began, key := time.Now(), j.provider.lastKey()
	said, err := r.ask(polling, j)
	if polling.Err() != nil {
		return polling.Err() // cut off, which says nothing of the provider
	}
	// What was learned is written down even while stopping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(polling), databaseTimeout)
	defer cancel()
	var v verdict
	if err != nil {
		v = refused(j.provider.source.Reconcile, err)
		if v.label == kindUnauthorized && j.provider.readKey() != key {
			v.pause = 0 // there is another by now
		}
	} else if v, err = r.answered(ctx, j, said); err != nil {
		tracing.Fail(span, err)
		return err
	}
	span.SetAttributes(tracing.OutcomeKey.String(v.label))
	return r.record(ctx, j, v, time.Since(began))
}

// awaitTurn waits for the task's turn under the source's rate limit, and
// returns whether it is this process's to ask for.
func (r *reconciler) awaitTurn(ctx context.Context, j job) (bool, error) {
	taking, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	apart := time.Duration(float64(time.Second) / j.provider.source.Reconcile.Rate)
	wait, taken, err := tasks.TakeSlot(taking, r.db, j.provider.source.Name, apart, longestSlotWait)
	if err != nil {
		return false, err
	}
	if taken {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false, nil // handed out again in its time
		case <-timer.C:
		}
		claiming, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		if mine, err := tasks.Claim(claiming, r.db, j.task.ID); err != nil || mine {
			return mine, err
		}
	}
	givingBack, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return false, tasks.GiveBack(givingBack, r.db, j.task.ID) // the source is paused, or the rate used up
}

// record writes a poll down, and pauses its source where that is called for.
func (r *reconciler) record(ctx context.Context, j job, v verdict, took time.Duration) error {
	name, settings := j.provider.source.Name, j.provider.source.Reconcile
	r.metrics.polls.WithLabelValues(name, v.label).Inc()
	if v.pause > 0 {
		if err := tasks.Pause(ctx, r.db, name, v.pause, v.result); err != nil {
			return err
		}
	}
	polls, next, err := tasks.Polled(ctx, r.db, tasks.Poll{
		ID: j.task.ID, Result: v.result, Settled: v.settled, Next: v.next, Rare: v.rare, Horizon: settings.Horizon, BackOff: v.backOff,
	})
	if err != nil {
		return err
	}
	log := j.log()
	if v.label == kindUnauthorized {
		log = log.With(j.provider.place())
	}
	log.Log(ctx, v.level, "asked the provider for a "+j.provider.subject.noun, slog.String("result", v.result), slog.String("kind", v.label),
		slog.Int("polls", polls), slog.Bool("settled", v.settled), slog.Bool("recovered", v.recovered), slog.Duration("took", took),
		slog.Duration("pause", v.pause), slog.Duration("again_in", next))
	return nil
}

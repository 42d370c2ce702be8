package reconciler

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/catchwater/catchwater/pkg/tasks"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

// handOutFor is how long a task that was handed out is not handed out again
// unless its poll has been recorded: as long as a request for a poll is heeded,
// and the poll itself may take.
const handOutFor = time.Minute

// maxHandOut bounds what one scan hands out for a source.
const maxHandOut = 500

// lead does a leader's work until ctx ends.
func (r *reconciler) lead(ctx context.Context) {
	r.metrics.leading.Set(1)
	defer r.metrics.stopLeading()
	var loops sync.WaitGroup
	defer loops.Wait()
	for _, asked := range r.asked {
		loops.Go(func() { r.every(ctx, r.cfg.ScanInterval, func() { r.scan(ctx, asked) }) })
	}
	loops.Go(func() { r.keepPartitions(ctx) })
}

// every calls work now and at each interval until ctx ends.
func (r *reconciler) every(ctx context.Context, interval time.Duration, work func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		work()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// scan brings one source's submitted tasks up to date and hands the overdue
// ones out.
func (r *reconciler) scan(ctx context.Context, asked *asked) {
	name, settings := asked.source.Name, asked.source.Reconcile
	log := r.log.With(slog.String("source", name))
	settled, err := tasks.Settle(ctx, r.db, name)
	if err != nil {
		r.warn(ctx, log, err)
		return
	}
	flagged, err := tasks.Flag(ctx, r.db, name, settings.Horizon)
	if err != nil {
		r.warn(ctx, log, err)
		return
	}
	for _, task := range flagged {
		log.Error("a submitted task has no result and is past the horizon; it needs investigation",
			slog.String("task_id", task.TaskID), slog.String("idempotency_key", task.IdempotencyKey), slog.Duration("horizon", settings.Horizon))
	}
	if counts, err := tasks.Count(ctx, r.db, name, settings.After, settings.Horizon); err != nil {
		r.warn(ctx, log, err)
	} else {
		r.metrics.setCounts(name, counts)
	}
	// No more than the rate lets through until the next scan.
	limit := min(int(math.Ceil(settings.Rate*r.cfg.ScanInterval.Seconds())), maxHandOut)
	due, err := tasks.HandOut(ctx, r.db, name, settings.After, limit, handOutFor)
	if err != nil {
		r.warn(ctx, log, err)
		return
	}
	if settled > 0 || len(due) > 0 {
		log.Info("looked for overdue tasks", slog.Int64("settled", settled), slog.Int("handed_out", len(due)))
	}
	for _, task := range due {
		request := &busv1.PollRequest{SubmittedTaskId: task.ID, Source: name, TaskId: task.TaskID}
		if r.consumer.Healthy() && r.bus.AskForPoll(request) == nil {
			continue
		}
		r.poll(ctx, asked, task) // without the broker, the leader asks by itself
		if ctx.Err() != nil {
			return
		}
	}
}

// warn logs what a scan could not do; the next one tries again.
func (r *reconciler) warn(ctx context.Context, log *slog.Logger, err error) {
	if ctx.Err() == nil {
		log.Warn("the scan for overdue tasks stopped; the next one goes on", slog.Any("error", err))
	}
}

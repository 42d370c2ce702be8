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
	loops.Go(func() { r.every(ctx, r.cfg.PartitionsEvery, func() { r.keepPartitions(ctx) }) })
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

// keepPartitions makes payload partitions ahead and drops the expired ones.
func (r *reconciler) keepPartitions(ctx context.Context) {
	const daysAhead = 7
	var made int
	if err := r.db.QueryRow(ctx, "select make_payload_partitions($1)", daysAhead).Scan(&made); err != nil {
		r.log.Warn("payload partitions could not be made ahead; bodies go to the default partition meanwhile", slog.Any("error", err))
	} else if made > 0 {
		r.log.Info("made payload partitions ahead", slog.Int("partitions", made))
	}
	for r.cfg.PayloadRetention > 0 && ctx.Err() == nil {
		var dropped *string
		if err := r.db.QueryRow(ctx, "select drop_payload_partition($1)", r.cfg.PayloadRetention).Scan(&dropped); err != nil {
			r.log.Warn("an expired payload partition could not be dropped; it is tried again", slog.Any("error", err))
			return
		}
		if dropped == nil {
			return
		}
		r.log.Info("dropped an expired payload partition", slog.String("partition", *dropped))
	}
}

// warn logs what a scan could not do; the next one tries again.
func (r *reconciler) warn(ctx context.Context, log *slog.Logger, err error) {
	if ctx.Err() == nil {
		log.Warn("the scan for overdue tasks stopped; the next one goes on", slog.Any("error", err))
	}
}

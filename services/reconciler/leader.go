package reconciler

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/catchwater/catchwater/pkg/tasks"
	"github.com/catchwater/catchwater/pkg/tracing"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

const (
	// handOutSpare is how much longer than a poll may take a task is not handed
	// out again: for the request's way, and the wait for a slot.
	handOutSpare = 45 * time.Second
	// maxHandOut bounds what is handed out in one statement.
	maxHandOut = 500
	// maxEnrol bounds how many messages are enrolled in one statement.
	maxEnrol = 1000
	// maxFlag bounds how many tasks past the horizon are marked in one statement,
	// and maxFlagged how many of those found in one scan are logged each.
	maxFlag    = 1000
	maxFlagged = 20
)

// lead does a leader's work until ctx ends. All of it is harmless to do twice,
// should another already lead: rows are marked by whoever comes first.
func (r *reconciler) lead(ctx context.Context) {
	r.metrics.leading.Set(1)
	defer r.metrics.stopLeading()
	var loops sync.WaitGroup
	defer loops.Wait()
	for _, p := range r.providers {
		loops.Go(func() { r.leadSource(ctx, p) })
	}
	loops.Go(func() { r.keepPartitions(ctx) })
}

// leadSource scans for one source's overdue tasks, now and at each interval,
// until ctx ends.
func (r *reconciler) leadSource(ctx context.Context, p *provider) {
	// Tasks are handed out no faster than they may be asked for, so that requests
	// do not pile up. That the rate is kept is up to the slots (tasks.TakeSlot).
	pace := rate.NewLimiter(rate.Limit(p.source.Reconcile.Rate), 1)
	ticker := time.NewTicker(r.cfg.ScanInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := r.scan(ctx, p, pace); err != nil && ctx.Err() == nil {
			p.log.Warn("the scan for overdue "+p.subject.plural+" stopped; the next one goes on", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// scan brings one source's submitted tasks up to date and hands the overdue
// ones out, until there are none or it is time for the next scan.
func (r *reconciler) scan(ctx context.Context, p *provider, pace *rate.Limiter) error {
	next := time.Now().Add(r.cfg.ScanInterval)
	name, settings := p.source.Name, p.source.Reconcile
	enrolled, settled, err := r.refresh(ctx, p)
	if err != nil {
		return err
	}
	if err := r.flag(ctx, p); err != nil {
		return err
	}
	counts, err := tasks.Count(ctx, r.db, name, settings.After, settings.Horizon)
	if err != nil {
		return err
	}
	r.metrics.setCounts(name, counts)

	handedOut := 0
	for more := true; more && ctx.Err() == nil; more = more && time.Now().Before(next) {
		var n int
		if n, more, err = r.handOut(ctx, p, pace); err != nil {
			return err
		}
		handedOut += n
	}
	if ctx.Err() == nil {
		r.metrics.scanned.WithLabelValues(name).Set(float64(time.Now().Unix()))
	}
	if enrolled > 0 || settled > 0 || handedOut > 0 {
		p.log.Info("looked for overdue "+p.subject.plural, slog.Int64("enrolled", enrolled), slog.Int64("settled", settled),
			slog.Int("handed_out", handedOut), slog.Int64("open", counts.Open), slog.Int64("overdue", counts.Overdue))
	}
	return nil
}

// refresh closes what needs no asking for any more. Tasks are opened by whoever
// submits them; messages are here, when their time has come.
func (r *reconciler) refresh(ctx context.Context, p *provider) (enrolled, settled int64, err error) {
	name := p.source.Name
	if p.source.Messages == nil {
		settled, err = tasks.Settle(ctx, r.db, name)
		return 0, settled, err
	}
	for n := int64(maxEnrol); n == maxEnrol; enrolled += n {
		if n, err = tasks.Enrol(ctx, r.db, name, p.source.Reconcile.After, maxEnrol); err != nil {
			return enrolled, 0, err
		}
	}
	settled, err = tasks.SettleMessages(ctx, r.db, name)
	return enrolled, settled, err
}

// flag marks and reports tasks past the horizon.
func (r *reconciler) flag(ctx context.Context, p *provider) error {
	horizon := p.source.Reconcile.Horizon
	for total := 0; ; {
		flagged, err := tasks.Flag(ctx, r.db, p.source.Name, horizon, maxFlag)
		if err != nil {
			return err
		}
		for n, task := range flagged {
			if total+n < maxFlagged {
				p.log.Error(p.subject.lost+" and is past the horizon; it needs investigation",
					slog.String(p.subject.id, task.TaskID), slog.String("idempotency_key", task.IdempotencyKey), slog.Duration("horizon", horizon))
			}
		}
		total += len(flagged)
		if len(flagged) < maxFlag {
			if total > maxFlagged {
				p.log.Error("more "+p.subject.plural+" are past the horizon; `catchwater tasks list --needs-investigation` shows them",
					slog.Int(p.subject.plural, total), slog.Duration("horizon", horizon))
			}
			return nil
		}
	}
}

// handOut hands some overdue tasks out at the source's pace. It returns how
// many, and whether there may be more.
func (r *reconciler) handOut(ctx context.Context, p *provider, pace *rate.Limiter) (handedOut int, more bool, err error) {
	settings := p.source.Reconcile
	limit := min(int(math.Ceil(settings.Rate)), maxHandOut)                      // a second's worth
	last := time.Duration(float64(limit) / settings.Rate * float64(time.Second)) // until the last of them is handed out
	due, err := tasks.HandOut(ctx, r.db, tasks.HandOutLimits{
		Source: p.source.Name, After: settings.After, Limit: limit, AtATime: r.atATime(p), Again: last + settings.Timeout + handOutSpare,
	})
	if err != nil {
		return 0, false, err
	}
	for n, task := range due {
		if err := pace.Wait(ctx); err != nil {
			return n, false, err
		}
		r.request(ctx, job{provider: p, task: task})
	}
	return len(due), len(due) == limit, nil
}

// atATime is how many of a source's tasks are handed out and not yet asked for
// at most: what the rate lets through in half a minute.
func (r *reconciler) atATime(p *provider) int {
	return max(2*r.cfg.Workers, min(int(p.source.Reconcile.Rate*30), 2*maxHandOut))
}

// request hands a poll to any reconciler, or, without the broker, to a worker
// of this process.
func (r *reconciler) request(ctx context.Context, j job) {
	ctx, span := r.beginRequest(ctx, j)
	defer span.End()
	message := &busv1.PollRequest{SubmittedTaskId: j.task.ID, Source: j.provider.source.Name, TaskId: j.task.TaskID}
	if r.consumer.Healthy() && r.bus.AskForPoll(ctx, message) == nil {
		return
	}
	j.traceparent = tracing.Traceparent(ctx)
	select {
	case r.own <- j:
	case <-ctx.Done():
	}
}

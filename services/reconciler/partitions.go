package reconciler

import (
	"context"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/partitions"
)

const (
	// daysAhead is how long nobody needs to lead before bodies go to the default
	// partition.
	daysAhead = 7
	// partitionsRetry is the wait after a lock was not to be had.
	partitionsRetry = time.Minute
)

// keepPartitions makes payload partitions ahead, and lets go of payloads and
// performed effects past the retention, now and at each interval, until ctx ends.
func (r *reconciler) keepPartitions(ctx context.Context) {
	for {
		wait := r.cfg.PartitionsEvery
		if r.keepPartitionsOnce(ctx) {
			r.metrics.upkeep.Set(float64(time.Now().Unix()))
		} else {
			wait = min(wait, partitionsRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// keepPartitionsOnce returns false when something is left to be tried again.
func (r *reconciler) keepPartitionsOnce(ctx context.Context) bool {
	made, err := partitions.MakeAhead(ctx, r.db, daysAhead)
	for _, m := range made {
		if m.Made {
			r.log.Info("made a payload partition", slog.String("partition", m.Partition))
		} else {
			r.log.Warn("bodies of a day stay in the default partition, which has some already", slog.String("partition", m.Partition))
		}
	}
	done := r.partitionsDone(ctx, err)
	if r.cfg.PayloadRetention == 0 {
		return done
	}
	expired, err := partitions.DropExpired(ctx, r.db, r.cfg.PayloadRetention)
	for _, e := range expired {
		if e.Dropped {
			r.log.Info("dropped an expired payload partition", slog.String("partition", e.Partition), slog.Int("kept", e.Kept))
		} else {
			r.log.Warn("an expired payload partition stays whole: too many of its rows are not processed, or have effects that are not performed",
				slog.String("partition", e.Partition), slog.Int("unprocessed", e.Kept))
		}
	}
	done = r.partitionsDone(ctx, err) && done
	trimmed, err := partitions.TrimDefault(ctx, r.db, r.cfg.PayloadRetention)
	if trimmed > 0 {
		r.log.Info("deleted expired payloads from the default partition", slog.Int64("payloads", trimmed))
	}
	done = r.partitionsDone(ctx, err) && done
	forgotten, err := effects.Trim(ctx, r.db, r.cfg.PayloadRetention)
	if forgotten > 0 {
		r.log.Info("deleted effects that were performed long ago", slog.Int64("effects", forgotten))
	}
	return r.partitionsDone(ctx, err) && done
}

func (r *reconciler) partitionsDone(ctx context.Context, err error) bool {
	if err != nil && ctx.Err() == nil {
		r.log.Warn("payload partitions and old effects could not be kept in order; it is tried again soon", slog.Any("error", err))
	}
	return err == nil
}

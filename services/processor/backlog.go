package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/messages"
	"github.com/catchwater/catchwater/pkg/source"
)

const (
	backlogInterval = 10 * time.Second
	backlogTimeout  = 5 * time.Second
)

// backlog watches what is not processed.
type backlog struct {
	orphanAfter map[string]time.Duration // of the sources whose rows may wait
	stuckAfter  map[string]time.Duration // of the same, for messages without a final status
	orphans     map[string]int64         // when last counted
	metrics     *backlogMetrics
	log         *slog.Logger
}

func newBacklog(sources *source.Config, metrics *backlogMetrics, log *slog.Logger) *backlog {
	b := &backlog{orphanAfter: make(map[string]time.Duration), stuckAfter: make(map[string]time.Duration), metrics: metrics, log: log}
	for _, s := range sources.Sources {
		if s.Messages == nil {
			continue
		}
		b.orphanAfter[s.Name], b.stuckAfter[s.Name] = s.Messages.OrphanAfter, s.Messages.OrphanAfter
		if s.Reconcile != nil {
			b.stuckAfter[s.Name] = s.Reconcile.After
		}
	}
	return b
}

// watch keeps the gauges of the tables until ctx ends.
func (b *backlog) watch(ctx context.Context, db messages.DB) {
	ticker := time.NewTicker(backlogInterval)
	defer ticker.Stop()
	for {
		if err := b.count(ctx, db); err != nil {
			b.log.DebugContext(ctx, "the backlog was not counted", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (b *backlog) count(ctx context.Context, db messages.DB) error {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	rows, err := inbox.Backlogs(ctx, db)
	if err != nil {
		return err
	}
	var orphans, stuck map[string]int64
	if len(b.orphanAfter) > 0 {
		if orphans, err = inbox.Orphans(ctx, db, b.orphanAfter); err != nil {
			return err
		}
		if stuck, err = messages.Stuck(ctx, db, b.stuckAfter); err != nil {
			return err
		}
	}
	b.metrics.show(rows, orphans, stuck, time.Now())
	for name, horizon := range b.orphanAfter {
		if more := orphans[name] - b.orphans[name]; more > 0 {
			b.log.WarnContext(ctx, "events have waited too long for their messages to be registered; they are kept, and `catchwater inbox list --state waiting` shows them",
				slog.String("source", name), slog.Int64("newly", more), slog.Int64("events", orphans[name]), slog.Duration("orphan_after", horizon))
		}
	}
	b.orphans = orphans
	return nil
}

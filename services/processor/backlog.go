package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
)

const (
	backlogInterval = 10 * time.Second
	backlogTimeout  = 5 * time.Second
)

// backlog watches what is not processed.
type backlog struct {
	orphanAfter map[string]time.Duration // of the sources whose rows may wait
	orphans     map[string]int64         // when last counted
	metrics     *metrics
	log         *slog.Logger
}

func newBacklog(sources *source.Config, metrics *metrics, log *slog.Logger) *backlog {
	b := &backlog{orphanAfter: make(map[string]time.Duration), metrics: metrics, log: log}
	for _, s := range sources.Sources {
		if s.Messages != nil {
			b.orphanAfter[s.Name] = s.Messages.OrphanAfter
		}
	}
	return b
}

// watch keeps the gauges of the inbox until ctx ends.
func (b *backlog) watch(ctx context.Context, db inbox.DB) {
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

func (b *backlog) count(ctx context.Context, db inbox.DB) error {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	rows, err := inbox.Backlogs(ctx, db)
	if err != nil {
		return err
	}
	b.metrics.setBacklog(rows)
	if len(b.orphanAfter) == 0 {
		return nil
	}
	orphans, err := inbox.Orphans(ctx, db, b.orphanAfter)
	if err != nil {
		return err
	}
	for name, horizon := range b.orphanAfter {
		b.metrics.orphans.WithLabelValues(name).Set(float64(orphans[name]))
		if more := orphans[name] - b.orphans[name]; more > 0 {
			b.log.WarnContext(ctx, "events have waited too long for their messages to be registered; they are kept, and `catchwater inbox list --state waiting` shows them",
				slog.String("source", name), slog.Int64("newly", more), slog.Int64("events", orphans[name]), slog.Duration("orphan_after", horizon))
		}
	}
	b.orphans = orphans
	return nil
}

package reconciler

import (
	"context"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/tasks"
)

// heedKeys ends, as long as ctx lasts, the pauses of sources whose API key was
// refused and has been replaced since. Every reconciler does so, for the key as
// it sees it: a mounted file changes on one machine sooner than on another.
func (r *reconciler) heedKeys(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.ScanInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, p := range r.providers {
			r.heedKey(ctx, p)
		}
	}
}

func (r *reconciler) heedKey(ctx context.Context, p *provider) {
	if !p.renewed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	ended, err := tasks.EndPause(ctx, r.db, p.source.Name, refusedKey)
	switch {
	case err != nil:
		p.log.Warn("the pause of the former API key could not be ended; it is tried again", slog.Any("error", err))
		return
	case ended:
		p.log.Info("the pause of the former API key is over")
	}
	p.heeded()
}

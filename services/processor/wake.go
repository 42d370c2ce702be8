package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/messages"
)

const (
	// wakeEvery bounds how long an event is put off that missed its message's
	// registration.
	wakeEvery   = 30 * time.Second
	wakeTimeout = 10 * time.Second
)

// wake makes events due, every now and then until ctx ends, that wait though
// their message is registered.
func (p *processor) wake(ctx context.Context, db messages.DB) {
	if len(p.backlog.orphanAfter) == 0 { // no source's events wait
		return
	}
	ticker := time.NewTicker(wakeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		waking, cancel := context.WithTimeout(ctx, wakeTimeout)
		if woken, err := messages.Wake(waking, db); err != nil {
			p.log.DebugContext(ctx, "waiting events were not looked through", slog.Any("error", err))
		} else if woken > 0 {
			p.log.InfoContext(ctx, "events were waiting whose messages are registered", slog.Int64("events", woken))
		}
		cancel()
	}
}

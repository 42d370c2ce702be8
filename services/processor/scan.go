package processor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// scan looks for due rows until ctx ends: seldom while the doorbell works,
// eagerly while it does not. One look that finds a whole batch turns into all
// workers' working the backlog off.
func (p *processor) scan(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if p.scanOnce(ctx) {
			p.workOff(ctx)
		}
		timer.Reset(p.scanInterval())
	}
}

func (p *processor) scanInterval() time.Duration {
	if p.consumer.Healthy() {
		return p.cfg.ScanInterval
	}
	return p.cfg.EagerScan
}

// scanOnce processes one batch of due rows and reports whether there may be
// more at once.
func (p *processor) scanOnce(ctx context.Context) bool {
	var ahead time.Duration
	if !p.consumer.Healthy() {
		ahead = p.cfg.Grace // nobody else will take new rows up
	}
	limit := p.scanLimit.rows()
	began := time.Now()
	since := p.watermark.from(began)
	result, err := p.batcher.run(ctx, viaScan, func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) {
		return inbox.ClaimDue(ctx, tx, since, ahead, limit)
	}, nil)
	p.scanLimit.heed(result, err)
	p.record(ctx, viaScan, result, err)
	if err != nil {
		p.pause(ctx)
		return false
	}
	switch {
	case len(result.rows) == 0:
		p.watermark.nothingDue(began)
	case since.Equal(time.Unix(0, 0)):
		p.watermark.foundBelow()
	}
	return len(result.rows) == limit
}

// workOff lets all workers take batches of due rows until there are none.
func (p *processor) workOff(ctx context.Context) {
	done := make(chan struct{})
	for range p.cfg.Workers {
		go func() {
			for ctx.Err() == nil && p.scanOnce(ctx) {
			}
			done <- struct{}{}
		}()
	}
	for range p.cfg.Workers {
		<-done
	}
}

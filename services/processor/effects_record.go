package processor

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
)

const (
	mostRecorded = 256 // in one statement
	recordRetry  = 200 * time.Millisecond
	// recordWhileStopping is how long a stop waits for the database to take what
	// was done; without it the calls are repeated.
	recordWhileStopping = 10 * time.Second
)

// record writes down what came of calls, for as long as calls are made.
func (p *performer) record(stop context.Context) {
	digests := time.NewTicker(digestInterval)
	defer digests.Stop()
	defer func() { p.sumUp(time.Now(), true) }()
	for {
		var batch []attempt
		select {
		case first := <-p.results:
			batch = p.collect(first)
		case now := <-digests.C:
			p.sumUp(now, false)
			continue
		case <-p.drained:
			return
		}
		begun := slices.DeleteFunc(slices.Clone(batch), func(a attempt) bool { return !a.begun })
		if len(begun) > 0 {
			p.write(stop, begun)
		}
		select {
		case p.ended <- batch:
		case <-p.drained:
			return
		}
	}
}

// collect takes what else has ended. It does not linger.
func (p *performer) collect(first attempt) []attempt {
	batch := []attempt{first}
	for len(batch) < mostRecorded {
		select {
		case a := <-p.results:
			batch = append(batch, a)
		default:
			return batch
		}
	}
	return batch
}

// write tries until it has succeeded, or until the service has been stopping for
// a while.
func (p *performer) write(stop context.Context, batch []attempt) {
	results := make([]effects.Result, 0, len(batch))
	for _, a := range batch {
		results = append(results, a.Result)
		p.count(a)
	}
	lost, err := p.tryWrite(results)
	var stopped time.Time
	for warned := false; err != nil; lost, err = p.tryWrite(results) {
		now := time.Now()
		if !warned {
			p.log.Warn("what came of effects cannot be recorded; it is tried again", slog.Int("effects", len(batch)), slog.Any("error", err))
			warned = true
		}
		p.warnOfEndedClaims(batch, now)
		if stop.Err() != nil && stopped.IsZero() {
			stopped = now
		}
		if !stopped.IsZero() && now.Sub(stopped) > recordWhileStopping {
			p.log.Error("stopping with effects that were performed and are not recorded: the calls will be repeated", slog.Int("effects", len(batch)))
			return
		}
		<-time.After(recordRetry)
	}
	for _, id := range lost {
		p.log.Warn("an effect was recorded after its claim had ended: its call may be made twice", slog.Int64("effect_id", id))
	}
}

func (p *performer) tryWrite(results []effects.Result) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), effectsTimeout)
	defer cancel()
	lost, err := effects.Record(ctx, p.db, results)
	if err != nil {
		p.troubled.Store(time.Now().UnixNano())
	}
	return lost, err
}

// warnOfEndedClaims says, once for each call, that its claim has ended before it
// could be recorded.
func (p *performer) warnOfEndedClaims(batch []attempt, now time.Time) {
	for i := range batch {
		if a := &batch[i]; !a.until.IsZero() && now.After(a.until) {
			p.log.Error("an effect's claim ended before it could be recorded: another processor may repeat the call",
				slog.String("source", a.Call.Source), slog.String("effect", a.Call.Name), slog.String("key", a.Call.Key()))
			a.until = time.Time{}
		}
	}
}

// watch keeps the gauges, and reports effects that nobody is going to perform.
func (p *performer) watch(ctx context.Context) {
	ticker := time.NewTicker(backlogInterval)
	defer ticker.Stop()
	for said := map[effects.Kind]bool(nil); ; {
		func() {
			ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
			defer cancel()
			backlog, err := effects.Backlogs(ctx, p.db)
			if err != nil {
				p.log.DebugContext(ctx, "the effects were not counted", slog.Any("error", err))
				return
			}
			p.metrics.setBacklog(backlog)
			said = p.reportUnknown(backlog, said)
		}()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reportUnknown says, when it is news, which pending effects this processor's
// configuration does not have, and returns those.
func (p *performer) reportUnknown(backlog []effects.Backlog, said map[effects.Kind]bool) map[effects.Kind]bool {
	unknown := make(map[effects.Kind]bool)
	for _, b := range backlog {
		kind := effects.Kind{Source: b.Source, Name: b.Name}
		if b.State != effects.Pending || p.lanes[kind] != nil {
			continue
		}
		unknown[kind] = true
		if !said[kind] {
			p.log.Warn("effects are pending that are not in the sources file: put their effect back there, or let go of them with `catchwater effects discard`",
				slog.String("source", b.Source), slog.String("effect", b.Name), slog.Int64("effects", b.Effects))
		}
	}
	if maps.Equal(unknown, said) {
		return said
	}
	return unknown
}

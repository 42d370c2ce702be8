package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/tracing"
)

const (
	// A target that fails says little that is new with each call.
	failureLines, failurePeriod = 1, 10 * time.Second
	// Each effect that was given up wants a person, who reads some lines a second.
	givenUpLines, givenUpPeriod = 5, time.Second
	// digestInterval is how often it is looked whether lines that were left out are
	// to be summed up.
	digestInterval = time.Second
)

// digest lets so many lines through in each period, and counts those left out.
type digest struct {
	lines  int
	period time.Duration
	began  time.Time // the period did
	said   int       // lines, in the period
	left   int       // lines left out since the last that was said
	last   error     // of those left out
}

// admit says whether a line is to be said now, and how many were left out before
// it.
func (d *digest) admit(now time.Time, err error) (further int, admitted bool) {
	if now.Sub(d.began) >= d.period {
		d.began, d.said = now, 0
	}
	if d.said >= d.lines {
		d.left, d.last = d.left+1, err
		return 0, false
	}
	further = d.left
	d.said, d.left, d.last = d.said+1, 0, nil
	return further, true
}

// sumUp returns how many lines were left out in a period that has ended, or that is
// the last, and the last one's error: they are to be said in one line, the first of
// a new period.
func (d *digest) sumUp(now time.Time, ending bool) (left int, last error) {
	if d.left == 0 || !ending && now.Sub(d.began) < d.period {
		return 0, nil
	}
	left, last = d.left, d.last
	d.began, d.said, d.left, d.last = now, 1, 0, nil
	return left, last
}

// count logs and counts a call.
func (p *performer) count(a attempt) {
	outcome, level, text := callPerformed, slog.LevelDebug, "performed an effect"
	further, admitted := 0, true
	var answer *target.Error
	switch a.State {
	case effects.GivenUp:
		outcome, level, text = callGivenUp, slog.LevelError, "an effect was given up; when the cause is mended, `catchwater effects retry` releases it"
		further, admitted = a.lane.givenUp.admit(time.Now(), a.Err)
	case effects.Pending:
		outcome, level, text = callFailed, slog.LevelWarn, "an effect could not be performed; it will be tried again"
		if errors.As(a.Err, &answer) && answer.Refused {
			outcome, text = callRefused, "an effect was refused; it will be tried again, in case something is mended over there"
		}
		further, admitted = a.lane.failures.admit(time.Now(), a.Err)
	}
	p.metrics.performed(a, outcome)
	if !admitted {
		return
	}
	attrs := []slog.Attr{
		slog.String("source", a.Call.Source), slog.String("effect", a.Call.Name), slog.String("key", a.Call.Key()),
		slog.Int("attempt", a.Call.Attempt), slog.Duration("took", a.took),
	}
	if a.Err != nil {
		attrs = append(attrs, slog.Duration("retry_in", a.RetryIn), slog.Any("error", a.Err))
	}
	if further > 0 {
		attrs = append(attrs, slog.Int("further", further))
	}
	var panicked *panicError
	if errors.As(a.Err, &panicked) {
		attrs = append(attrs, slog.String("stack", string(panicked.stack)))
	}
	p.log.LogAttrs(tracing.WithTraceparent(context.Background(), a.Call.Traceparent), level, text, attrs...)
}

// sumUp says how many calls failed that had no line of their own.
func (p *performer) sumUp(now time.Time, ending bool) {
	for kind, l := range p.lanes {
		if n, last := l.failures.sumUp(now, ending); n > 0 {
			p.log.Warn("further calls of an effect failed; they will be tried again",
				slog.String("source", kind.Source), slog.String("effect", kind.Name), slog.Int("further", n), slog.Any("error", last))
		}
		if n, last := l.givenUp.sumUp(now, ending); n > 0 {
			p.log.Error("further effects were given up; when the cause is mended, `catchwater effects retry` releases them",
				slog.String("source", kind.Source), slog.String("effect", kind.Name), slog.Int("further", n), slog.Any("error", last))
		}
	}
}

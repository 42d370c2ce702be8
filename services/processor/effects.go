package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

const (
	// effectsTimeout bounds each statement of the performer.
	effectsTimeout = 4 * time.Second
	// leastEffectLease is longer than a claim can take to be answered.
	leastEffectLease = 5 * time.Second
	// settleTime is how long, after the database has failed to answer, calls that
	// nobody recorded are left to those who made them: while it was away they could
	// not record them.
	settleTime = 10 * time.Second
	// longestRest bounds how long one answer's Retry-After keeps all calls of an
	// effect waiting. The row that was answered waits as long as it was told to.
	longestRest = 5 * time.Minute
)

// performer performs effects that are due. It works apart from the processing of
// rows, on database connections of its own.
//
// One goroutine (run) claims effects for all lanes at once and starts a goroutine
// for each call; another (record) writes down what came of them, many at a time.
// A lane's place is taken until that is done, so no more is claimed than can be
// recorded. Only run touches the lanes, but for the digests, which are record's.
type performer struct {
	db      effects.DB
	log     *slog.Logger
	lanes   map[effects.Kind]*lane
	every   time.Duration // between looks that nobody asked for
	metrics *effectMetrics
	tracer  *tracing.Tracer

	nudges  chan struct{}
	results chan attempt
	ended   chan []attempt
	drained chan struct{} // closed when nothing more is to be recorded
	// patience is how long past its time-out a call is waited for when stopping.
	patience time.Duration
	// troubled is when the database last failed to answer, or else when this process
	// began to look: in nanoseconds since 1970.
	troubled atomic.Int64
	warned   bool // that no effects can be claimed
}

// lane is one effect's own share of the work.
type lane struct {
	effect *source.Effect
	target target.Target
	lease  time.Duration
	places int // calls under way at a time
	busy   int
	more   bool      // there may be due ones that it had no place for
	rests  time.Time // until when its target asked to be left alone
	marked watermark // before which nothing of it is due

	failures, givenUp digest // what the log says of them
}

// attempt is a call that is made.
type attempt struct {
	effects.Result
	lane  *lane
	until time.Time // when its claim ends
	rest  time.Duration
	took  time.Duration
	begun bool
}

// newPerformer opens the targets of the sources' effects.
func newPerformer(db effects.DB, cfg Config, sources *source.Config, options target.Options, metrics *effectMetrics, tracer *tracing.Tracer, log *slog.Logger) (*performer, error) {
	p := &performer{
		db: db, log: log, tracer: tracer, lanes: make(map[effects.Kind]*lane), every: cfg.ScanInterval, metrics: metrics,
		nudges: make(chan struct{}, 1), results: make(chan attempt), ended: make(chan []attempt), drained: make(chan struct{}),
		patience: recordWhileStopping + effectsTimeout,
	}
	var errs []error
	for _, s := range sources.Sources {
		for _, e := range s.Effects {
			if e.Transaction {
				continue
			}
			opened, err := target.Open(s, e, options)
			errs = append(errs, err)
			p.lanes[effects.Kind{Source: s.Name, Name: e.Name}] = &lane{
				effect: e, target: opened, lease: e.Timeout + cfg.EffectLease, places: cfg.EffectWorkers,
				failures: digest{lines: failureLines, period: failurePeriod}, givenUp: digest{lines: givenUpLines, period: givenUpPeriod},
			}
		}
	}
	return p, errors.Join(errs...)
}

// nudge says that there are new effects. It never waits.
func (p *performer) nudge() {
	select {
	case p.nudges <- struct{}{}:
	default:
	}
}

// run performs effects until ctx ends, then waits for the calls under way, which
// their time-outs bound, and until they are recorded.
func (p *performer) run(ctx context.Context) {
	var others sync.WaitGroup
	for _, l := range p.lanes {
		others.Go(func() { l.target.Watch(ctx) })
	}
	others.Go(func() { p.watch(ctx) })
	others.Go(func() { p.record(ctx) })
	p.troubled.Store(time.Now().UnixNano())
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for p.nudge(); ctx.Err() == nil; {
		all := true
		select {
		case <-ctx.Done():
			continue
		case <-p.nudges:
		case <-ticker.C:
		case batch := <-p.ended:
			p.heed(batch)
			all = false
		}
		p.dispatch(ctx, all)
	}
	p.drain()
	close(p.drained)
	others.Wait()
}

// drain waits for the calls under way and their records. A handler that does not
// heed its time-out is left behind: no stop is to wait for it for ever.
func (p *performer) drain() {
	longest := p.patience
	for _, l := range p.lanes {
		longest = max(longest, l.effect.Timeout+p.patience)
	}
	tooLong := time.NewTimer(longest)
	defer tooLong.Stop()
	for kind, l := range p.lanes {
		for l.busy > 0 {
			select {
			case batch := <-p.ended:
				p.heed(batch)
			case <-tooLong.C:
				p.log.Error("stopping with calls under way that do not heed their time-outs: they will be repeated",
					slog.String("source", kind.Source), slog.String("effect", kind.Name), slog.Int("calls", l.busy))
				return
			}
		}
	}
}

// heed gives calls' places back.
func (p *performer) heed(batch []attempt) {
	for _, a := range batch {
		a.lane.busy--
		if a.rest > 0 {
			p.rest(a, time.Now())
		}
	}
}

// rest leaves a target alone that asked for it, though not for as long as it may
// have asked one call to wait: what it says of one may not hold for all.
func (p *performer) rest(a attempt, now time.Time) {
	until := now.Add(min(a.rest, longestRest))
	if now.After(a.lane.rests) { // once a pause, not once a call that was under way
		p.log.Warn("the target asked to be left alone: no call of this effect is made until then", slog.String("source", a.Call.Source),
			slog.String("effect", a.Call.Name), slog.Time("until", until), slog.Duration("asked_for", a.rest))
	}
	a.lane.rests = until
}

// dispatch claims what is due, for all lanes or for those that may have more, and
// begins the calls.
func (p *performer) dispatch(ctx context.Context, all bool) {
	if len(p.lanes) == 0 {
		return
	}
	began := time.Now()
	var wanted []effects.Wanted
	for kind, l := range p.lanes {
		l.more = l.more || all
		if free := l.places - l.busy; free > 0 && l.more && began.After(l.rests) {
			wanted = append(wanted, effects.Wanted{Kind: kind, Most: free, Lease: l.lease, Since: l.marked.from(began)})
		}
	}
	if len(wanted) == 0 {
		return
	}
	calls, abandoned, err := p.claim(ctx, wanted)
	if err != nil {
		return
	}
	if ctx.Err() != nil { // stopping: nothing new is begun
		p.handBack(ctx, calls)
		return
	}
	claimed := make(map[effects.Kind]int, len(wanted))
	for i := range calls {
		call := &calls[i]
		kind := effects.Kind{Source: call.Source, Name: call.Name}
		claimed[kind]++
		l := p.lanes[kind]
		l.busy++
		go func() {
			select {
			case p.results <- p.perform(ctx, l, call, began.Add(l.lease)):
			case <-p.drained:
			}
		}()
	}
	for _, w := range wanted {
		l, n := p.lanes[w.Kind], claimed[w.Kind]
		l.more = n == w.Most
		switch {
		case n == 0 && abandoned:
			l.marked.nothingDue(began)
		case n > 0 && w.Since.Equal(time.Unix(0, 0)):
			l.marked.foundBelow()
		}
	}
}

// claim claims, though not what a processor left behind (abandoned) while the
// database was away just now: it may be alive, and about to record what it did.
func (p *performer) claim(ctx context.Context, wanted []effects.Wanted) (calls []effects.Call, abandoned bool, err error) {
	abandoned = time.Since(time.Unix(0, p.troubled.Load())) > settleTime
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), effectsTimeout)
	defer cancel()
	calls, err = effects.Claim(claiming, p.db, wanted, abandoned)
	if err != nil {
		p.troubled.Store(time.Now().UnixNano())
		if !p.warned { // once an outage, not once a try
			p.log.WarnContext(ctx, "no effects can be claimed; it is tried again", slog.Any("error", err))
		}
	}
	p.warned = err != nil
	return calls, abandoned, err
}

func (p *performer) handBack(ctx context.Context, calls []effects.Call) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), effectsTimeout)
	defer cancel()
	if err := effects.HandBack(ctx, p.db, calls); err != nil {
		p.log.Warn("effects that were not begun are not handed back; they are performed when their claims end", slog.Any("error", err))
	}
}

// perform makes a call, even while stopping: what was begun is finished.
func (p *performer) perform(ctx context.Context, l *lane, call *effects.Call, until time.Time) attempt {
	a := attempt{lane: l, until: until, Result: effects.Result{Call: call}}
	began := time.Now()
	if began.Add(l.effect.Timeout).After(until) {
		return a // this process was held up; somebody else may be at it before it ends
	}
	a.begun = true
	if call.Repeated {
		p.log.InfoContext(ctx, "repeating a call of which no end was recorded", slog.String("source", call.Source),
			slog.String("effect", call.Name), slog.String("key", call.Key()), slog.Int("attempt", call.Attempt))
	}
	calling, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), l.effect.Timeout, fmt.Errorf("none came within %s", l.effect.Timeout))
	defer cancel()
	calling, span := callSpan(calling, p.tracer, call)
	a.Err = protectCall(calling, l.target, call)
	tracing.Fail(span, a.Err)
	span.End()
	a.took = time.Since(began)
	a.decide(l.effect)
	return a
}

// protectCall turns a handler's panic into an error.
func protectCall(ctx context.Context, t target.Target, call *effects.Call) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{who: "the handler", value: value, stack: debug.Stack()}
		}
	}()
	return t.Perform(ctx, call)
}

// decide settles what is to become of the effect.
func (a *attempt) decide(e *source.Effect) {
	var permanent *inbox.PermanentError
	var answer *target.Error
	if errors.As(a.Err, &answer) {
		a.rest = answer.RetryAfter
	}
	switch {
	case a.Err == nil:
		a.State = effects.Performed
	case a.Call.Attempt >= e.MaxAttempts || errors.As(a.Err, &permanent):
		a.State = effects.GivenUp
	default:
		a.State = effects.Pending
		a.RetryIn = max(backOff(e.RetryBase, e.RetryMax, a.Call.Attempt-1), a.rest)
	}
}

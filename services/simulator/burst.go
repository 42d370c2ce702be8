package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	maxBurst = 1_000_000
	// keptBursts is how many bursts are remembered.
	keptBursts = 20
)

// pace is how many things a burst makes, and how fast.
type pace struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"perSecond"` // 0: all at once
	NoWait    bool    `json:"noWait"`    // answer before the burst is done
}

func (p pace) validate() string {
	switch {
	case p.Count < 1 || p.Count > maxBurst:
		return fmt.Sprintf("count is %d: use 1 to %d", p.Count, maxBurst)
	case !(p.PerSecond >= 0):
		return "perSecond: use 0 or more"
	}
	return ""
}

// maker makes a burst's nth thing and returns its id.
type maker func(n int, random *rand.Rand) (id string, err error)

// burst is things made in quick succession.
type burst struct {
	id   string
	pace pace
	one  maker
	done chan struct{}

	mu  sync.Mutex
	ids []string
}

// progress is what is told of a burst, besides what it has made.
type progress struct {
	ID    string `json:"burst"`
	Count int    `json:"count"`
	Made  int    `json:"made"`
	Done  bool   `json:"done"` // all are made, or the burst was stopped
}

// progress returns also the ids of what was made, in order.
func (b *burst) progress() (progress, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return progress{ID: b.id, Count: b.pace.Count, Made: len(b.ids), Done: b.ended()}, append([]string{}, b.ids...)
}

func (b *burst) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// run makes the things, each at its time counted from the start, so that a late
// one does not delay the next.
func (b *burst) run(ctx context.Context, random *rand.Rand) {
	began := time.Now()
	for n := range b.pace.Count {
		due := began
		if b.pace.PerSecond > 0 {
			due = began.Add(time.Duration(float64(n) / b.pace.PerSecond * float64(time.Second)))
		}
		if !sleepUntil(ctx, due) {
			return
		}
		id, err := b.one(n, random)
		if err != nil {
			return // of a thing without an id of its own there is nothing to refuse
		}
		b.mu.Lock()
		b.ids = append(b.ids, id)
		b.mu.Unlock()
	}
}

// sleepUntil reports whether the time has come before ctx ended.
func sleepUntil(ctx context.Context, due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// bursts are a provider's running ones and the latest ended ones.
type bursts struct {
	base context.Context
	seed uint64

	mu      sync.Mutex
	ctx     context.Context // of the running ones
	cancel  context.CancelFunc
	list    []*burst
	next    int
	running sync.WaitGroup
}

func newBursts(base context.Context, seed uint64) *bursts {
	b := &bursts{base: base, seed: seed}
	b.ctx, b.cancel = context.WithCancel(base)
	return b
}

// start starts a burst.
func (s *bursts) start(p pace, one maker) *burst {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	b := &burst{id: fmt.Sprintf("burst_%d", s.next), pace: p, one: one, done: make(chan struct{})}
	if len(s.list) >= keptBursts && s.list[0].ended() {
		s.list = s.list[1:]
	}
	s.list = append(s.list, b)
	ctx, random := s.ctx, rand.New(rand.NewPCG(s.seed, uint64(s.next)))
	s.running.Go(func() {
		defer close(b.done)
		b.run(ctx, random)
	})
	return b
}

// find returns a burst by its id, or nil.
func (s *bursts) find(id string) *burst {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.list {
		if b.id == id {
			return b
		}
	}
	return nil
}

// idle reports whether no burst is running.
func (s *bursts) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.list {
		if !b.ended() {
			return false
		}
	}
	return true
}

// stop ends the running bursts and forgets all.
func (s *bursts) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.list = nil
	s.ctx, s.cancel = context.WithCancel(s.base)
}

// wait returns when the bursts have ended, which the base context makes them.
func (s *bursts) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

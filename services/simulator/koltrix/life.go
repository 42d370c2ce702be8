package koltrix

import (
	"context"
	"math"
	"time"

	"github.com/catchwater/catchwater/services/simulator/due"
)

// Run moves messages through their lives until ctx ends.
func (s *Messages) Run(ctx context.Context) { due.Loop(ctx, s.wake, s.advance) }

// advance does all that is due and returns how long nothing will be.
func (s *Messages) advance() time.Duration {
	for {
		happened, wait := s.advanceOne()
		switch {
		case happened != nil:
			s.deliver(happened)
		case wait > 0:
			return wait
		}
	}
}

// advanceOne does one thing that is due. It returns an event that is to be
// delivered, or else how long nothing will be due.
func (s *Messages) advanceOne() (happened *Occurrence, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Duration(math.MaxInt64)
	if len(s.kept) > 0 {
		if until = time.Until(s.kept[0].ended.Add(s.scaled(s.cfg.Keep))); until <= 0 {
			s.forgetOldest()
			return nil, 0
		}
	}
	m, ok, wait := s.next.Take()
	if !ok {
		return nil, min(wait, until)
	}
	next := m.plan[0]
	m.plan = m.plan[1:]
	happened = s.happen(m, next.Step, time.Now().Unix())
	s.proceed(m)
	if m.quiet || next.NoDelivery {
		return nil, 0
	}
	return happened, 0
}

// proceed puts the next event of a message's plan into the queue, or ends its
// life.
func (s *Messages) proceed(m *message) {
	if len(m.plan) == 0 {
		s.end(m)
	} else {
		s.next.Add(m.began.Add(s.scaled(m.plan[0].after)), m)
	}
	s.signal()
}

// happen makes an event of a message, at the step's time or else no earlier than
// at one that is given.
func (s *Messages) happen(m *message, step Step, at int64) *Occurrence {
	eventType, to := step.eventType(), step.To
	if to == "" {
		to = m.recipients[0]
	}
	s.counts.Events[eventType]++
	if step.Timestamp != 0 {
		return m.record(eventType, to, step.Timestamp)
	}
	return m.happen(eventType, to, at)
}

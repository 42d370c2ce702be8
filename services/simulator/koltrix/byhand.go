package koltrix

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Exact is a message of the caller's making. What is not given is made up.
type Exact struct {
	ID string `json:"message_id"`
	Request
	// History is all that happens to the message: nothing when it is empty, and
	// something plausible when it is not given.
	History []Step `json:"history"`
	// Live lets the history take its time. Else it lies in the past, up to now, and
	// all of it is delivered at once.
	Live       bool `json:"live"`
	NoDelivery bool `json:"noDelivery"` // of no event; only the API knows
}

// Happened is an event and the delivery that was queued for it.
type Happened struct {
	Event
	DeliveryID string `json:"deliveryId,omitempty"`
}

// Made is a message and what has happened to it by now.
type Made struct {
	Message
	Events []Happened `json:"events"`
}

// Validate says what is missing: ErrNoEvent, or nil.
func (x Exact) Validate() error {
	if slices.ContainsFunc(x.History, func(s Step) bool { return s.Event == "" }) {
		return ErrNoEvent
	}
	return nil
}

// Make adds a message of the caller's making.
func (s *Messages) Make(x Exact) (Made, error) {
	if err := x.Validate(); err != nil {
		return Made{}, err
	}
	s.mu.Lock()
	if s.byID[x.ID] != nil {
		s.mu.Unlock()
		return Made{}, ErrExists
	}
	m, random := s.add(x.ID, x.Request)
	m.quiet = x.NoDelivery
	m.plan = s.planOf(x, m, random)
	var happened []*Occurrence
	if x.Live {
		s.proceed(m)
	} else {
		happened = s.happenAll(m)
	}
	made := Made{Message: m.Message}
	s.mu.Unlock()
	made.Events = s.deliverAll(happened)
	return made, nil
}

// planOf is the history of a message of the caller's making, with a time for
// each event: as it is made up, or a step after another.
func (s *Messages) planOf(x Exact, m *message, random *rand.Rand) []planned {
	if x.History == nil {
		return plausible(m.recipients, s.chances, s.cfg.Step, random)
	}
	apart := s.cfg.Step
	if !x.Live {
		apart = time.Second
	}
	plan := make([]planned, len(x.History))
	for n, step := range x.History {
		plan[n] = planned{step, time.Duration(n+1) * apart}
	}
	return plan
}

// happenAll lets everything that is planned for a message have happened by now.
// It returns the events that are to be delivered.
func (s *Messages) happenAll(m *message) (deliver []*Occurrence) {
	plan := m.plan
	if len(plan) > 0 {
		m.began = time.Now().Add(-plan[len(plan)-1].after)
	}
	for _, next := range plan {
		happened := s.happen(m, next.Step, m.began.Add(next.after).Unix())
		if !m.quiet && !next.NoDelivery {
			deliver = append(deliver, happened)
		}
	}
	s.end(m)
	s.signal()
	return deliver
}

// Emit makes one more event of a message, whatever else is to happen to it.
func (s *Messages) Emit(id string, step Step) (Made, error) {
	if step.Event == "" {
		return Made{}, ErrNoEvent
	}
	s.mu.Lock()
	m := s.byID[id]
	if m == nil {
		s.mu.Unlock()
		return Made{}, ErrUnknown
	}
	happened := s.happen(m, step, time.Now().Unix())
	made := Made{Message: m.Message}
	s.mu.Unlock()
	if step.NoDelivery {
		made.Events = []Happened{{Event: happened.Event}}
		return made, nil
	}
	made.Events = s.deliverAll([]*Occurrence{happened})
	return made, nil
}

// deliverAll hands events over, in order.
func (s *Messages) deliverAll(events []*Occurrence) []Happened {
	list := make([]Happened, len(events))
	for n, o := range events {
		list[n] = Happened{o.Event, s.deliver(o)}
	}
	return list
}

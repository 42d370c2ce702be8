package delivery

import (
	"errors"
	"slices"
	"time"
)

// The reasons why a redelivery is refused.
var (
	ErrUnknown  = errors.New("there is no such delivery")
	ErrPending  = errors.New("the delivery is pending: it is still retrying by itself")
	ErrGone     = errors.New("what the delivery is about is no longer kept")
	ErrTooOften = errors.New("too many redeliveries in this hour")
)

// Redeliver sends an ended delivery again at once, under its id, with a fresh
// set of attempts.
func (e *Engine) Redeliver(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, hourAgo := e.byID[id], time.Now().Add(-e.scaled(time.Hour))
	e.redelivered = slices.DeleteFunc(e.redelivered, hourAgo.After)
	switch {
	case d == nil:
		return ErrUnknown
	case d.State == Pending:
		return ErrPending
	case !d.Subject.Kept():
		return ErrGone
	case len(e.redelivered) >= e.cfg.RedeliverLimit:
		return ErrTooOften
	}
	e.redelivered = append(e.redelivered, time.Now())
	e.total.redelivered++
	d.Attempts = 0
	e.become(d, Pending)
	e.enqueue(d, 0)
	return nil
}

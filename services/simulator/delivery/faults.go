package delivery

import (
	"errors"
	"fmt"
	"time"
)

// Faults are what goes wrong with deliveries on purpose. Ratios are from 0 to 1.
type Faults struct {
	Drop      float64 `json:"drop"`         // deliveries that are never sent
	Duplicate float64 `json:"duplicate"`    // attempts that are sent twice, at once
	Repeat    float64 `json:"repeat"`       // deliveries that are sent again after the 2xx
	Lose      float64 `json:"lose"`         // attempts whose 2xx is taken for a lost answer
	Abort     float64 `json:"abort"`        // attempts whose connection is closed once the body is sent
	BadSign   float64 `json:"badSignature"` // attempts that are signed over other bytes
	DelayMs   int     `json:"delayMs"`      // before a delivery's first attempt, in real time
	Disorder  int     `json:"disorderMs"`   // at random up to this, on top
	// SkewSeconds is how far the provider's clock is wrong when it signs; behind
	// when negative.
	SkewSeconds int `json:"skewSeconds"`
}

// Validate says what is out of range.
func (f Faults) Validate() error {
	var errs []error
	for _, r := range []struct {
		name  string
		value float64
	}{{"drop", f.Drop}, {"duplicate", f.Duplicate}, {"repeat", f.Repeat}, {"lose", f.Lose}, {"abort", f.Abort}, {"badSignature", f.BadSign}} {
		if !(r.value >= 0 && r.value <= 1) {
			errs = append(errs, fmt.Errorf("delivery.%s is %v: use 0 to 1", r.name, r.value))
		}
	}
	if f.DelayMs < 0 || f.Disorder < 0 {
		errs = append(errs, errors.New("delivery.delayMs and delivery.disorderMs: use 0 or more"))
	}
	return errors.Join(errs...)
}

// mishaps are the faults of one attempt, drawn beforehand.
type mishaps struct {
	duplicate, repeat, lose, abort, badSign bool
	skew                                    time.Duration
}

// draw decides what goes wrong with one attempt. The caller holds the lock.
func (e *Engine) draw() mishaps {
	hit := func(ratio float64) bool { return ratio > 0 && e.random.Float64() < ratio }
	f := e.faults
	return mishaps{
		duplicate: hit(f.Duplicate), repeat: hit(f.Repeat), lose: hit(f.Lose), abort: hit(f.Abort),
		badSign: hit(f.BadSign), skew: time.Duration(f.SkewSeconds) * time.Second,
	}
}

// firstDelay is how late the faults make a first attempt. The caller holds the
// lock.
func (e *Engine) firstDelay() time.Duration {
	delay := e.faults.DelayMs
	if e.faults.Disorder > 0 {
		delay += e.random.IntN(e.faults.Disorder + 1)
	}
	return time.Duration(delay) * time.Millisecond
}

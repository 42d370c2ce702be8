package answerline

import (
	"errors"
	"fmt"
	"time"
)

// Faults are what goes wrong with the API and with tasks on purpose. Ratios are
// from 0 to 1.
type Faults struct {
	// TooMany is how many requests are answered 429 from now on, and
	// TooManySeconds for how long all of them are, with RetryAfter seconds.
	TooMany        int `json:"tooMany"`
	TooManySeconds int `json:"tooManyForSeconds"`
	RetryAfter     int `json:"retryAfterSeconds"`
	// ServerErrors is how many requests are answered 500 from now on.
	ServerErrors     int     `json:"serverErrors"`
	ServerErrorRatio float64 `json:"serverErrorRatio"`
	// WithholdCreates is how many creates succeed without ever being answered.
	WithholdCreates int     `json:"withholdCreates"`
	SlowMs          int     `json:"slowMs"`       // before every answer, in real time
	FailRatio       float64 `json:"failRatio"`    // of runs that fail
	RequeueRatio    float64 `json:"requeueRatio"` // of runs that fall back to QUEUED
	StallQueue      bool    `json:"stallQueue"`   // no task starts
}

// Validate says what is out of range.
func (f Faults) Validate() error {
	var errs []error
	for _, r := range []struct {
		name  string
		value float64
	}{{"serverErrorRatio", f.ServerErrorRatio}, {"failRatio", f.FailRatio}, {"requeueRatio", f.RequeueRatio}} {
		if !(r.value >= 0 && r.value <= 1) {
			errs = append(errs, fmt.Errorf("api.%s is %v: use 0 to 1", r.name, r.value))
		}
	}
	if min(f.TooMany, f.TooManySeconds, f.RetryAfter, f.ServerErrors, f.WithholdCreates, f.SlowMs) < 0 {
		errs = append(errs, errors.New("api: counts, seconds and milliseconds are 0 or more"))
	}
	return errors.Join(errs...)
}

// SetFaults replaces the faults.
func (a *API) SetFaults(f Faults) {
	a.mu.Lock()
	a.faults = f
	a.tooManyUntil = time.Now().Add(time.Duration(f.TooManySeconds) * time.Second)
	a.mu.Unlock()
	a.tasks.SetChances(Chances{Fail: f.FailRatio, Requeue: f.RequeueRatio, Stalled: f.StallQueue})
}

// Faults returns the faults, with what is left of those that are counted.
func (a *API) Faults() Faults {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults
}

// trouble is what goes wrong with one request before it is looked at.
type trouble int

const (
	none trouble = iota
	tooMany
	serverError
)

// draw decides what goes wrong with the next request, and how slow it is.
func (a *API) draw() (what trouble, retryAfter int, slow time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.faults
	slow = time.Duration(f.SlowMs) * time.Millisecond
	switch {
	case f.TooMany > 0:
		f.TooMany--
		what = tooMany
	case time.Now().Before(a.tooManyUntil):
		what = tooMany
	case f.ServerErrors > 0:
		f.ServerErrors--
		what = serverError
	case f.ServerErrorRatio > 0 && a.random.Float64() < f.ServerErrorRatio:
		what = serverError
	}
	return what, f.RetryAfter, slow
}

// withhold reports whether the next create is not answered.
func (a *API) withhold() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faults.WithholdCreates == 0 {
		return false
	}
	a.faults.WithholdCreates--
	a.counts["withheld_create"]++
	return true
}

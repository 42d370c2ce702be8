package gate

import (
	"errors"
	"fmt"
	"time"
)

// Faults are what goes wrong with an API on purpose.
type Faults struct {
	// TooMany is how many requests are answered 429 from now on, and
	// TooManySeconds for how long all of them are, with RetryAfter seconds.
	TooMany        int `json:"tooMany"`
	TooManySeconds int `json:"tooManyForSeconds"`
	RetryAfter     int `json:"retryAfterSeconds"`
	// ServerErrors is how many requests are answered 500 from now on, and
	// ServerErrorRatio how many of all, from 0 to 1.
	ServerErrors     int     `json:"serverErrors"`
	ServerErrorRatio float64 `json:"serverErrorRatio"`
	// WithholdCreates is how many creates succeed without ever being answered.
	WithholdCreates int `json:"withholdCreates"`
	SlowMs          int `json:"slowMs"` // before every answer, in real time
}

// Validate says what is out of range.
func (f Faults) Validate() error {
	var errs []error
	if min(f.TooMany, f.TooManySeconds, f.RetryAfter, f.ServerErrors, f.WithholdCreates, f.SlowMs) < 0 {
		errs = append(errs, errors.New("api: counts, seconds and milliseconds are 0 or more"))
	}
	return errors.Join(append(errs, Ratio("api.serverErrorRatio", f.ServerErrorRatio))...)
}

// Ratio says what is wrong with a ratio.
func Ratio(name string, value float64) error {
	if value >= 0 && value <= 1 { // so written, NaN is wrong too
		return nil
	}
	return fmt.Errorf("%s is %v: use 0 to 1", name, value)
}

// SetFaults replaces the faults.
func (g *Gate) SetFaults(f Faults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = f
	g.tooManyUntil = time.Now().Add(time.Duration(f.TooManySeconds) * time.Second)
}

// Faults returns the faults, with what is left of those that are counted.
func (g *Gate) Faults() Faults {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faults
}

// trouble is what goes wrong with one request before it is looked at.
type trouble int

const (
	none trouble = iota
	tooMany
	serverError
)

// draw decides what goes wrong with the next request, and how slow it is.
func (g *Gate) draw() (what trouble, retryAfter int, slow time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := &g.faults
	slow = time.Duration(f.SlowMs) * time.Millisecond
	switch {
	case f.TooMany > 0:
		f.TooMany--
		what = tooMany
	case time.Now().Before(g.tooManyUntil):
		what = tooMany
	case f.ServerErrors > 0:
		f.ServerErrors--
		what = serverError
	case f.ServerErrorRatio > 0 && g.random.Float64() < f.ServerErrorRatio:
		what = serverError
	}
	return what, f.RetryAfter, slow
}

// withhold reports whether the next create is not answered.
func (g *Gate) withhold() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.faults.WithholdCreates == 0 {
		return false
	}
	g.faults.WithholdCreates--
	g.counts["withheld_create"]++
	return true
}

package answerline

import (
	"errors"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

// Faults are what goes wrong with the API and with tasks on purpose.
type Faults struct {
	gate.Faults
	Chances
}

// Validate says what is out of range.
func (f Faults) Validate() error {
	return errors.Join(f.Faults.Validate(), gate.Ratio("api.failRatio", f.Fail), gate.Ratio("api.requeueRatio", f.Requeue))
}

// SetFaults replaces the faults.
func (a *API) SetFaults(f Faults) {
	a.Gate.SetFaults(f.Faults)
	a.tasks.SetChances(f.Chances)
}

// Faults returns the faults, with what is left of those that are counted.
func (a *API) Faults() Faults { return Faults{a.Gate.Faults(), a.tasks.Chances()} }

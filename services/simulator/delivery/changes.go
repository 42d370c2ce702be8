package delivery

import "slices"

// SetURL registers another target; what is pending goes there from now on.
func (e *Engine) SetURL(target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.url = target
}

// SetSecrets replaces the valid secrets.
func (e *Engine) SetSecrets(secrets []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets = slices.Clone(secrets)
}

// SetFaults replaces the faults.
func (e *Engine) SetFaults(f Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

// Faults returns the faults.
func (e *Engine) Faults() Faults {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.faults
}

// Pause stops new attempts, or lets them go on.
func (e *Engine) Pause(paused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = paused
	e.signal()
}

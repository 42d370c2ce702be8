package delivery

import (
	"maps"
	"slices"
	"strconv"
)

// totals are the counters of a report.
type totals struct {
	states                                  map[State]int
	sends, attempts, redelivered, forgotten int
	byCode                                  map[string]int
	times                                   latencies
}

func newTotals() totals {
	return totals{states: make(map[State]int), byCode: make(map[string]int)}
}

// count adds one request that has ended.
func (t *totals) count(a Answer) {
	t.sends++
	code := "none"
	if a.Code != 0 {
		code = strconv.Itoa(a.Code)
		t.times.add(a.TookMs)
	}
	t.byCode[code]++
}

// Idle reports whether nothing is pending.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total.states[Pending] == 0 && e.underWay == 0
}

// Report sums the log up, in as much detail as is asked for.
func (e *Engine) Report(detail Detail) Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &e.total
	r := Report{
		Pending: t.states[Pending], Delivered: t.states[Delivered], Dead: t.states[Dead], Dropped: t.states[Dropped],
		Sends: t.sends, Attempts: t.attempts, Repeated: t.sends - t.attempts, Redelivered: t.redelivered,
		Forgotten: t.forgotten, Paused: e.paused, ByCode: maps.Clone(t.byCode), AnswerMs: t.times.quantiles(),
	}
	if detail >= IDs {
		r.SubjectIDs = make(map[State][]string)
		for _, d := range e.order {
			r.SubjectIDs[d.State] = append(r.SubjectIDs[d.State], d.Subject.ID())
		}
	}
	if detail >= Log {
		r.Deliveries = make([]Delivery, len(e.order))
		for n, d := range e.order {
			r.Deliveries[n] = d.snapshot()
		}
	}
	return r
}

// Filter picks deliveries out of the log; what is empty picks all.
type Filter struct {
	State     State
	SubjectID string
	Limit     int
}

// List returns the deliveries that a filter picks, the newest first.
func (e *Engine) List(f Filter) []Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []Delivery{}
	for _, d := range slices.Backward(e.order) {
		if len(list) == f.Limit {
			break
		}
		if (f.State == "" || d.State == f.State) && (f.SubjectID == "" || d.Subject.ID() == f.SubjectID) {
			list = append(list, d.snapshot())
		}
	}
	return list
}

package delivery

import "time"

// State is what has become of a delivery.
type State string

// The states of the delivery log.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Dead      State = "dead"
	Dropped   State = "dropped" // a fault: it is never sent, and nobody is told
)

// Attempt is one request and what came of it.
type Attempt struct {
	At     time.Time `json:"at"` // when it was sent
	Code   int       `json:"status"`
	Err    string    `json:"error,omitempty"`
	TookMs float64   `json:"tookMs"`
}

// Delivery is an entry of the log.
type Delivery struct {
	ID            string    `json:"id"` // stable over retries and redeliveries
	State         State     `json:"state"`
	Attempts      int       `json:"attempts"`      // since it was last queued
	Total         int       `json:"totalAttempts"` // over redeliveries too
	Sends         int       `json:"sends"`         // requests that have ended, a fault's repetitions included
	LastCode      int       `json:"lastStatus"`    // 0 when there was no answer
	LastError     string    `json:"lastError,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
	NextAttemptAt time.Time `json:"nextAttemptAt,omitzero"` // while it waits for one
	EndedAt       time.Time `json:"endedAt,omitzero"`       // when it was delivered or died
	// History is the latest attempts, at most maxHistory, the oldest first.
	History []Attempt `json:"history"`
	// Subject is what is delivered. Whoever shows the log knows what to tell of it.
	Subject Subject `json:"-"`
}

// maxHistory bounds what the log keeps of one delivery: three rounds of ten.
const maxHistory = 30

// note adds an attempt to the entry.
func (d *Delivery) note(at time.Time, a Answer) {
	d.Attempts++
	d.Total++
	d.LastCode, d.LastError = a.Code, a.Err
	if len(d.History) == maxHistory {
		d.History = append(d.History[:0:0], d.History[1:]...)
	}
	d.History = append(d.History, Attempt{At: at, Code: a.Code, Err: a.Err, TookMs: a.TookMs})
}

// snapshot is a copy that later attempts do not change.
func (d *Delivery) snapshot() Delivery {
	c := *d
	c.History = append([]Attempt{}, d.History...)
	return c
}

// Report sums the log up. The counters go on over what the log forgets.
type Report struct {
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Dropped   int `json:"dropped"`
	// Sends are the requests that have ended: attempts, and what faults add.
	Sends       int  `json:"sends"`
	Attempts    int  `json:"attempts"`
	Repeated    int  `json:"repeated"` // by faults
	Redelivered int  `json:"redelivered"`
	Forgotten   int  `json:"forgotten"` // ended ones that made room in the log
	Paused      bool `json:"paused"`
	// ByCode counts answers by status code; "none" where there was none.
	ByCode map[string]int `json:"answers"`
	// AnswerMs are quantiles of the receiver's time to answer, in milliseconds,
	// to within a hundredth.
	AnswerMs map[string]float64 `json:"answerMs"`
	// SubjectIDs are the subjects of the log in each state, on request.
	SubjectIDs map[State][]string `json:"-"`
	// Deliveries is the log itself, the oldest first, on request.
	Deliveries []Delivery `json:"deliveries,omitempty"`
}

// Detail says how much a report names.
type Detail int

// The details of a report.
const (
	Totals Detail = iota
	IDs
	Log
)

package delivery

import (
	"time"
)

// State is what has become of a delivery.
type State string

// The states of the delivery log.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Dead      State = "dead"
	Dropped   State = "dropped" // a fault: it is never sent, and nobody is told
)

// Delivery is an entry of the log.
type Delivery struct {
	ID        string    `json:"id"` // Webhook-Id: stable over retries and redeliveries
	TaskID    string    `json:"taskId"`
	State     State     `json:"state"`
	Attempts  int       `json:"attempts"`      // since it was last queued
	Total     int       `json:"totalAttempts"` // over redeliveries too
	Sends     int       `json:"sends"`         // requests made, duplicates included
	LastCode  int       `json:"lastStatus"`    // 0 when there was no answer
	LastError string    `json:"lastError,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"` // when it was delivered or died

	body []byte
	due  time.Time
}

// Report sums the log up.
type Report struct {
	Pending   int            `json:"pending"`
	Delivered int            `json:"delivered"`
	Dead      int            `json:"dead"`
	Dropped   int            `json:"dropped"`
	Sends     int            `json:"sends"`
	ByCode    map[string]int `json:"answers"` // by status code, or "none"
	// AnswerMs are quantiles of the receiver's time to answer, in milliseconds.
	AnswerMs map[string]float64 `json:"answerMs"`
	// TaskIDs are the tasks in each state, on request.
	TaskIDs map[State][]string `json:"taskIds,omitempty"`
	// Deliveries is the log itself, on request.
	Deliveries []Delivery `json:"deliveries,omitempty"`
}

package koltrix

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The events of a message's life. The provider may send others.
const (
	Sent         = "message.sent"
	Delivered    = "message.delivered"
	Opened       = "message.opened"
	Clicked      = "message.clicked"
	Unsubscribed = "message.unsubscribed"
	Bounced      = "message.bounced"
	Complained   = "message.complained"
)

// prefix is what an event's type has and a status does not.
const prefix = "message."

// queued is the status of a message without events.
const queued = "queued"

// ranks are the precedences of the events, all above that of queued. Others move
// no status.
var ranks = map[string]int{Sent: 10, Delivered: 20, Opened: 30, Clicked: 40, Unsubscribed: 50, Bounced: 60, Complained: 70}

// Message is what the API says of a message. Its timestamp and recipient are
// those of the event that set the status.
type Message struct {
	ID        string `json:"message_id"`
	Status    string `json:"status"`
	Timestamp int64  `json:"timestamp"` // unix seconds; of a queued message, when it was made
	To        string `json:"to"`
	From      string `json:"from"`
	Subject   string `json:"subject"`
	Category  string `json:"category,omitempty"`
}

// Event is what a delivery carries.
type Event struct {
	Type      string `json:"event"`
	Timestamp int64  `json:"timestamp"` // unix seconds
	MessageID string `json:"message_id"`
	To        string `json:"to"` // one recipient, whom the event is about
	From      string `json:"from"`
	Subject   string `json:"subject"`
	Category  string `json:"category,omitempty"`
}

// Occurrence is an event as it is delivered.
type Occurrence struct {
	Event
	message *message
}

// ID names the message. With Body and Kept it makes an occurrence a
// delivery.Subject.
func (o *Occurrence) ID() string { return o.MessageID }

// Body is the event's JSON.
func (o *Occurrence) Body() []byte {
	body, _ := json.Marshal(o.Event) // of strings and a number: it cannot fail
	return body
}

// Kept reports whether the API still knows the message.
func (o *Occurrence) Kept() bool { return !o.message.gone.Load() }

// message is a Message and its life.
type message struct {
	Message
	recipients []string
	rank       int
	latest     int64       // the timestamp of its latest event
	seen       []string    // types and recipients of the events in that second
	plan       []planned   // what will still happen by itself
	quiet      bool        // its events are not delivered
	began      time.Time   // on this machine's clock
	ended      time.Time   // when the plan was done; zero before
	gone       atomic.Bool // no longer kept
}

// happen makes an event of the message and derives the status. Timestamps never
// fall, and grow where an event would else be taken for one that was before: a
// type, a recipient and a second are all that tells events apart.
func (m *message) happen(eventType, to string, at int64) *Occurrence {
	what := eventType + " " + to
	at = max(at, m.latest)
	if at == m.latest && slices.Contains(m.seen, what) {
		at++
	}
	if at > m.latest {
		m.latest, m.seen = at, nil
	}
	m.seen = append(m.seen, what)
	return m.record(eventType, to, at)
}

// record makes an event at a time that is given, whatever was before.
func (m *message) record(eventType, to string, at int64) *Occurrence {
	rank := ranks[eventType]
	if rank > m.rank || rank == m.rank && rank > 0 && at < m.Timestamp {
		m.Status, m.rank, m.Timestamp, m.To = strings.TrimPrefix(eventType, prefix), rank, at, to
	}
	return &Occurrence{Event{
		Type: eventType, Timestamp: at, MessageID: m.ID, To: to, From: m.From, Subject: m.Message.Subject, Category: m.Category,
	}, m}
}

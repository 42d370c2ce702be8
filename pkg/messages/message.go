package messages

import (
	"time"

	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

// key names a message.
type key struct{ source, id string }

// message is what is known of one.
type message struct {
	status         string
	rank           int
	statusAt       *time.Time // nil before any event has set it
	final          bool
	opened         int
	firstOpenedAt  *time.Time
	clicked        int
	firstClickedAt *time.Time

	touched bool // by an event of this batch
}

// event is what an inbox row says of a message.
type event struct {
	inboxID    int64
	eventKey   string
	message    key
	eventType  string
	recipient  string // empty where the event does not say
	category   string
	occurredAt time.Time
	status     source.Status // of no name when the type moves no status
}

// apply derives what the message is from one more event, and says what that
// changed. Whatever order distinct events are applied in, the message comes to
// the same.
func (m *message) apply(e event) projection.Change {
	if e.status.Name == "" {
		return projection.Change{}
	}
	change := projection.Change{Status: e.status.Name}
	if e.status.Rank > m.rank {
		change.Previous, change.Changed = m.status, true
	}
	if m.yieldsTo(e) {
		m.status, m.rank, m.final, m.statusAt = e.status.Name, e.status.Rank, e.status.Final, &e.occurredAt
		m.touched = true
	}
	switch e.status.Name {
	case source.StatusOpened:
		m.count(&m.opened, &m.firstOpenedAt, e.occurredAt)
	case source.StatusClicked:
		m.count(&m.clicked, &m.firstClickedAt, e.occurredAt)
	}
	return change
}

// yieldsTo says whether the event's status takes the place of the message's: a
// higher rank does, and the same rank at an earlier time. Of two statuses with
// the same rank and time, the first by name stands.
func (m *message) yieldsTo(e event) bool {
	switch {
	case e.status.Rank != m.rank:
		return e.status.Rank > m.rank
	case m.statusAt == nil:
		return true
	case !e.occurredAt.Equal(*m.statusAt):
		return e.occurredAt.Before(*m.statusAt)
	}
	return e.status.Name < m.status
}

func (m *message) count(n *int, first **time.Time, at time.Time) {
	*n++
	if *first == nil || at.Before(**first) {
		*first = &at
	}
	m.touched = true
}

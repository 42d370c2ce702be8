package inbox

import (
	"crypto/sha256"
	"errors"
	"time"
)

// Origin says how an event came in.
type Origin string

const (
	// FromDelivery is a webhook delivery that the provider sent.
	FromDelivery Origin = "delivery"
	// FromReconcile is an answer to a question that this side asked.
	FromReconcile Origin = "reconcile"
	// FromImport is a body that an operator fed in.
	FromImport Origin = "import"
)

// Delivery is one event as it goes into the inbox. It must have been verified:
// an unverified delivery could claim the key of a real one.
type Delivery struct {
	Source   string
	EventKey string // 1 to 512 bytes; with Source the identity of the event
	// EventType and Subject are empty where the body does not say them.
	EventType string
	Subject   string
	// OccurredAt is the provider's time of the event, zero where not said.
	OccurredAt time.Time
	Origin     Origin
	// Body is stored byte for byte.
	Body []byte
	// Restated says that the event is delivered in other bytes than Body, such as
	// by a provider that was asked for it. Then no other body is a conflict.
	Restated bool
	// Headers are those of the request that are worth keeping.
	Headers map[string]string
	// Traceparent is the W3C trace context of the request, or empty.
	Traceparent string
	// Quarantine is the reason why nothing can be made of the delivery. With
	// one it is stored all the same, out of the processors' way.
	Quarantine string
}

// hash is that of the bytes which are delivered, and empty where those are not
// known.
func (d *Delivery) hash() []byte {
	if d.Restated {
		return []byte{}
	}
	sum := sha256.Sum256(d.Body)
	return sum[:]
}

// Outcome says what Insert made of a delivery.
type Outcome uint8

const (
	// Failed: see the error; nothing is stored.
	Failed Outcome = iota
	// Stored: a new row.
	Stored
	// Duplicate: a row with the key was there, with the same body.
	Duplicate
	// Conflict: a row with the key was there, with another body, which stays.
	Conflict
)

func (o Outcome) String() string {
	return [...]string{"failed", "stored", "duplicate", "conflict"}[o]
}

// Inserted is the outcome for one delivery.
type Inserted struct {
	ID      int64 // of the row that holds the key; 0 when Failed
	Outcome Outcome
	Err     error // set when Failed
}

// ErrUnavailable is wrapped by errors that say the database could not be
// reached or would not work: nothing was wrong with what was asked, and asking
// again later can succeed.
var ErrUnavailable = errors.New("the database is unavailable")

// PermanentError wraps a processing error that no retry can help: the row is
// quarantined at once.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

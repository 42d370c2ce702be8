package delivery

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Contract is what a provider promises of its deliveries.
type Contract struct {
	// MaxAttempts is how often a delivery is tried before it is dead.
	MaxAttempts int
	// Timeout is how long a receiver has to answer, in real time.
	Timeout time.Duration
	// Wait is the time between an attempt, counted from 1, and the next one,
	// before the time scale; nil where there is one attempt only.
	Wait func(attempt int, random *rand.Rand) time.Duration
	// Headers sets the headers of one request: the delivery's id, and the
	// signatures made now with every valid secret.
	Headers func(h http.Header, id string, now time.Time, secrets []string, body []byte)
	// Sample is the body of the dashboard's test delivery.
	Sample []byte
}

// Subject is what a delivery is about.
type Subject interface {
	// ID names the subject.
	ID() string
	// Body returns the bytes to deliver, the same ones at every call.
	Body() []byte
	// Kept reports whether the provider still keeps the subject; what is no
	// longer kept cannot be redelivered.
	Kept() bool
}

// Package delivery is a provider's delivery engine: it signs, sends, waits,
// retries and gives up as the Answerline reference tells it, and keeps the log
// that the provider's dashboard would show.
package delivery

import (
	"math/rand/v2"
	"time"
)

const (
	// MaxAttempts is how often a delivery is tried before it is dead.
	MaxAttempts = 10
	// AttemptTimeout is how long a receiver has to answer.
	AttemptTimeout = 15 * time.Second

	firstWait = 5 * time.Second
)

// Wait is the time between an attempt (counted from 1) and the next one, before
// the time scale: 5 s, doubling, each shortened by a random part of up to half.
// Over nine waits that is 21 to 43 minutes.
func Wait(attempt int, random *rand.Rand) time.Duration {
	base := firstWait << (attempt - 1)
	return base - time.Duration(random.Int64N(int64(base/2)+1))
}

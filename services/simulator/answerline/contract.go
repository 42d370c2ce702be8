package answerline

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

const (
	maxAttempts    = 10
	attemptTimeout = 15 * time.Second
	firstWait      = 5 * time.Second
)

// sample is the dashboard's test delivery.
const sample = `{"test":true,"task":{"id":"task_sample","taskType":"answer","status":"COMPLETED","priority":0,` +
	`"createdAt":"2026-01-01T00:00:00.000Z","idempotencyKey":null},"credits":{"creditsToCharge":0,"creditsCharged":0},` +
	`"response":{"result":{"text":"a sample"}}}`

// Contract is what Answerline promises of its deliveries: at most ten attempts
// of 15 s each, signed when they are sent with every valid secret.
func Contract() delivery.Contract {
	return delivery.Contract{MaxAttempts: maxAttempts, Timeout: attemptTimeout, Wait: wait, Headers: headers, Sample: []byte(sample)}
}

// wait is 5 s, doubled after each attempt, and shortened by a random part of up
// to half: over the nine waits 21 to 43 minutes.
func wait(attempt int, random *rand.Rand) time.Duration {
	base := firstWait << (attempt - 1)
	return base - time.Duration(random.Int64N(int64(base/2)+1))
}

// headers sets Webhook-Id, which is not signed, and Webhook-Signature.
func headers(h http.Header, id string, now time.Time, secrets []string, body []byte) {
	h.Set("User-Agent", "Answerline-Webhooks/1.0 (simulator)")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Signature", delivery.Sign(secrets, now, body))
}

package koltrix

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

const attemptTimeout = 8 * time.Second

// Contract is what Koltrix promises of its deliveries: one attempt of 8 s, signed
// with every valid secret. There is no retry, and no test delivery.
func Contract() delivery.Contract {
	return delivery.Contract{MaxAttempts: 1, Timeout: attemptTimeout, Headers: headers}
}

// headers sets X-Koltrix-Signature and, where the body is an event, X-Koltrix-Event.
// Neither the delivery's id nor the time is told.
func headers(h http.Header, _ string, _ time.Time, secrets []string, body []byte) {
	h.Set("User-Agent", "Koltrix-Webhooks/1.0 (simulator)")
	if len(secrets) > 0 {
		h.Set("X-Koltrix-Signature", sign(secrets, body))
	}
	var e struct {
		Event string `json:"event"`
	}
	// Of what is signed on purpose over more than the body, the body is read.
	if json.NewDecoder(bytes.NewReader(body)).Decode(&e) == nil && e.Event != "" {
		h.Set("X-Koltrix-Event", e.Event)
	}
}

// sign is sha256=<hex HMAC-SHA256(secret, body)>, one for each secret. Like
// delivery.Sign it is written apart from the receiver's code.
func sign(secrets []string, body []byte) string {
	var items []string
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		items = append(items, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(items, ",")
}

package signature

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vector is one of testdata/signatures.json, most of them published by the
// providers themselves; each names its source.
type vector struct {
	ID, Scheme, Secret, Body, Expect, Note string
	Headers                                map[string]string
	PublicKey                              string `json:"public_key"`
}

// schemes are those of the vectors, by the names that they use.
var schemes = map[string]Scheme{
	"standard-webhooks-v1": {
		Header: "Webhook-Signature", Form: FormVersioned, SignatureKeys: []string{"v1"}, TimestampHeader: "Webhook-Timestamp",
		IDHeader: "Webhook-Id", Signed: "{id}.{t}.{body}", Algorithm: HMACSHA256, Encoding: Base64, KeyForm: Base64,
		KeyPrefix: "whsec_", Tolerance: 300 * time.Second,
	},
	"standard-webhooks-v1a (ed25519)": {
		Header: "Webhook-Signature", Form: FormVersioned, SignatureKeys: []string{"v1a"}, TimestampHeader: "Webhook-Timestamp",
		IDHeader: "Webhook-Id", Signed: "{id}.{t}.{body}", Algorithm: Ed25519, Encoding: Base64, KeyForm: Base64,
		KeyPrefix: "whpk_", Tolerance: 300 * time.Second,
	},
	"stripe-v1":                             stripeLike("Stripe-Signature"),
	"t,v1 (stripe-like)":                    stripeLike("Webhook-Signature"),
	"t,v1 (stripe-like, Outpost list form)": stripeLike("Webhook-Signature"),
	"hmac-sha256-hex body": {
		Header: "X-Hub-Signature-256", Form: FormPairs, SignatureKeys: []string{"sha256"}, Signed: "{body}", Algorithm: HMACSHA256, Encoding: Hex,
	},
	"cloro-v1": {
		Header: "X-Cloro-Signature", Form: FormPairs, SignatureKeys: []string{"v1"}, TimestampHeader: "X-Cloro-Timestamp",
		Signed: "{t}.{body}", Algorithm: HMACSHA256, Encoding: Hex, Tolerance: 300 * time.Second,
	},
}

func stripeLike(header string) Scheme {
	return Scheme{
		Header: header, Form: FormPairs, SignatureKeys: []string{"v1"}, TimestampKey: "t", Signed: "{t}.{body}",
		Algorithm: HMACSHA256, Encoding: Hex, Tolerance: 300 * time.Second,
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 30 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, c := range vectors {
		t.Run(c.ID, func(t *testing.T) { runVector(t, c) })
	}
}

func runVector(t *testing.T, c vector) {
	scheme, ok := schemes[c.Scheme]
	if !ok {
		t.Fatalf("no scheme is called %q", c.Scheme)
	}
	header := make(http.Header)
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	if header.Get("X-Koltrix-Signature") != "" {
		scheme.Header = "X-Koltrix-Signature"
	}
	v, err := scheme.Compile()
	if err != nil {
		t.Fatal(err)
	}
	secret := c.Secret
	if c.PublicKey != "" {
		secret = c.PublicKey
	}
	key, err := v.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	// Each was made at the time in it; some are about that being long ago.
	now := signedAt(header)
	switch {
	case strings.Contains(c.ID, "old-timestamp"), strings.Contains(c.ID, "outdated"):
		now = now.Add(301 * time.Second)
	case strings.Contains(c.ID, "new-timestamp"):
		now = now.Add(-301 * time.Second)
	}
	err = v.Verify(header, []byte(c.Body), []Key{key}, now)
	var rejection *Rejection
	switch {
	case c.Expect == "valid" && err != nil:
		t.Errorf("rejected: %v", err)
	case c.Expect != "valid" && !errors.As(err, &rejection):
		t.Errorf("not rejected: %v", err)
	}
}

// signedAt finds the time of signing in a vector's headers.
func signedAt(h http.Header) time.Time {
	for name := range h {
		for part := range strings.SplitSeq(h.Get(name), ",") {
			text := strings.TrimPrefix(part, "t=")
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && (strings.HasPrefix(part, "t=") || strings.Contains(name, "Timestamp")) {
				return time.Unix(n, 0)
			}
		}
	}
	return time.Unix(1_700_000_000, 0)
}

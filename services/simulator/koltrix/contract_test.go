package koltrix

import (
	"net/http"
	"testing"
	"time"
)

// TestSignKnownValue compares with what openssl makes of the same bytes:
// printf '{"b": 1}' | openssl dgst -sha256 -hmac KEY.
func TestSignKnownValue(t *testing.T) {
	t.Parallel()
	const want = "sha256=bad052c784a02bf1442ef94dc83ec2732dc225257a486d63639c835ec9542afc,sha256=16c1fb805a7966bff9613df404841ba46c95841951ccbb66396a6413a868e42b"
	if got := sign([]string{"koltrix-0123456789abcdef", "another-secret-of-some-length"}, []byte(`{"b": 1}`)); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	c := Contract()
	if c.MaxAttempts != 1 || c.Timeout != 8*time.Second {
		t.Errorf("%d attempts of %s", c.MaxAttempts, c.Timeout)
	}
	for body, event := range map[string]string{
		`{"event":"message.opened","timestamp":1}`:       "message.opened",
		`{"event":"message.opened","timestamp":1}forged`: "message.opened",
		`{"event":""}`: "", `{"event":5}`: "", `not JSON`: "",
	} {
		h := make(http.Header)
		c.Headers(h, "wh_1", time.Unix(1700000000, 0), []string{"a", "b"}, []byte(body))
		if h.Get("X-Koltrix-Signature") != sign([]string{"a", "b"}, []byte(body)) || h.Get("X-Koltrix-Event") != event || h.Get("Webhook-Id") != "" {
			t.Errorf("the headers of %s are %v", body, h)
		}
	}
	h := make(http.Header)
	c.Headers(h, "", time.Now(), nil, []byte("{}"))
	if _, there := h["X-Koltrix-Signature"]; there {
		t.Errorf("without secrets the headers are %v", h)
	}
}

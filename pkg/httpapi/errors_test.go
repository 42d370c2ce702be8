package httpapi

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text, date string
		want       time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"-5", "", 0},
		{" 30 ", "", 30 * time.Second},
		{"86400", "", time.Hour},
		{"99999999999999999999", "", time.Hour},
		{"-99999999999999999999", "", 0},
		{"soon", "", 0},
		{"1.5", "", 0},
		{"Sun, 01 Mar 2026 12:00:20 GMT", "", 20 * time.Second},
		{"Sun, 01 Mar 2026 11:59:00 GMT", "", 0},
		{"Sun, 01 Mar 2026 18:00:00 GMT", "", time.Hour},
		{"Sun, 01 Mar 2026 12:05:20 GMT", "Sun, 01 Mar 2026 12:05:00 GMT", 20 * time.Second}, // the API's clock is ahead
	} {
		header := http.Header{}
		header.Set("Retry-After", c.text)
		header.Set("Date", c.date)
		if got := RetryAfter(header, now); got != c.want {
			t.Errorf("%q, sent %q: got %s, want %s", c.text, c.date, got, c.want)
		}
	}
}

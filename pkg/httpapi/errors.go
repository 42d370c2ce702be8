package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Error is an answer other than 2xx.
type Error struct {
	Status     int
	Code       string        // the API's own, such as RESOURCE_CONFLICT; may be empty
	Message    string        // the API's own, at most 200 bytes; may be empty
	RetryAfter time.Duration // what the answer asks for, at most an hour; 0 when it does not
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the API answers %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// TooLargeError says that an answer has more bytes than Client.MaxBody.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer has more than %d bytes", e.Limit)
}

// IsTemporary reports whether the same call may succeed later: no answer in
// time, or not to the end; 408, 429, or 5xx. It does not hold for a call that
// its caller cancelled.
func IsTemporary(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	var urlError *url.Error
	return errors.As(err, &urlError)
}

// readError makes an Error of an answer, whose body may be anything: the API's
// own form, a proxy's page, or nothing.
func readError(response *http.Response, data []byte) *Error {
	var body, inner struct {
		Error   json.RawMessage `json:"error"`
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
	}
	_ = json.Unmarshal(data, &body)        // else nothing is known
	_ = json.Unmarshal(body.Error, &inner) // {"error": {"code": …, "message": …}}
	return &Error{
		Status: response.StatusCode, RetryAfter: RetryAfter(response.Header, time.Now()),
		Code: firstText(inner.Code, body.Code), Message: firstText(inner.Message, body.Message, body.Error),
	}
}

// maxText bounds what is kept of a text from outside, in bytes.
const maxText = 200

// firstText returns the first of some JSON values that is a string, as one
// short line.
func firstText(values ...json.RawMessage) string {
	for _, value := range values {
		var text string
		if len(value) == 0 || json.Unmarshal(value, &text) != nil || text == "" {
			continue
		}
		return OneLine(text)
	}
	return ""
}

// OneLine is the beginning of a text from outside, at most 200 bytes, for people.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}

// maxRetryAfter keeps a provider's slip from stopping everything for days.
const maxRetryAfter = time.Hour

// RetryAfter reads the header of that name, 0 to an hour: seconds, or an HTTP date, which is compared with
// the sender's own clock where the answer says it.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	var wait time.Duration
	seconds, err := strconv.ParseInt(text, 10, 64) // the greatest number when out of range
	if err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		if sent, err := http.ParseTime(header.Get("Date")); err == nil {
			now = sent
		}
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

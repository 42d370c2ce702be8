package answerline

import (
	"errors"
	"net/http"

	"github.com/catchwater/catchwater/pkg/httpapi"
)

// CodeConflict is the code of a 409 that says that a task with the idempotency
// key exists.
const CodeConflict = "RESOURCE_CONFLICT"

// The errors of a call.
type (
	// Error is an answer other than 2xx.
	Error = httpapi.Error
	// TooLargeError says that an answer has more bytes than Client.MaxBody.
	TooLargeError = httpapi.TooLargeError
)

// IsConflict reports whether err says that a task with the idempotency key
// exists: an earlier create succeeded, answered or not.
func IsConflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusConflict && (e.Code == CodeConflict || e.Code == "")
}

// IsNotFound reports whether err says that the task is unknown or no longer
// kept.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// IsTemporary reports whether the same call may succeed later: no answer in
// time, or not to the end; 408, 429, or 5xx. It does not hold for a call that
// its caller cancelled.
func IsTemporary(err error) bool { return httpapi.IsTemporary(err) }

package ingress

import (
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/signature"
	"github.com/catchwater/catchwater/pkg/source"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

// endpoint is one source with its secrets.
type endpoint struct {
	source  *source.Source
	keyring *source.Keyring
}

// handler answers deliveries.
type handler struct {
	endpoints     map[string]endpoint
	batcher       *batcher
	announce      func(*busv1.Announcement, string) error
	memory        *budget
	answerTimeout time.Duration
	retryAfter    string
	ready         func() bool
	draining      func() bool
	metrics       *metrics
	log           *slog.Logger
	now           func() time.Time
}

// register adds the routes. The endpoint is the same with and without a
// trailing slash, and nothing is ever redirected.
func (h *handler) register(e *echo.Echo) {
	for _, path := range []string{"/hooks/:source", "/hooks/:source/"} {
		e.Any(path, h.serve)
	}
}

// answer is what a delivery comes to: the status for the sender, and for us
// the outcome (a metric label, so one of few) and what it was about.
type answer struct {
	status  int
	outcome string
	detail  string // for the log only: why it was rejected, or what it conflicts with
	key     string
	inboxID int64
	err     error
}

// serve is the whole life of one request.
func (h *handler) serve(c echo.Context) error {
	began := h.now()
	r := c.Request()
	if h.draining() {
		c.Response().Header().Set("Connection", "close") // so that no request meets a connection being closed
	}
	target, known := h.endpoints[c.Param("source")]
	if !known {
		h.metrics.unknown.Inc()
		return c.NoContent(http.StatusNotFound)
	}
	if r.Method != http.MethodPost {
		c.Response().Header().Set("Allow", http.MethodPost)
		return c.NoContent(http.StatusMethodNotAllowed)
	}
	a := h.receive(c, target)
	h.metrics.observe(target.source.Name, a.outcome, h.now().Sub(began))
	h.logAnswer(c, target.source.Name, a, h.now().Sub(began))
	if a.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", h.retryAfter)
	}
	return c.NoContent(a.status)
}

// receive verifies and stores a delivery.
func (h *handler) receive(c echo.Context, target endpoint) answer {
	r := c.Request()
	memory := &lease{budget: h.memory}
	handedOn := false // to the batcher, which may hold the body for longer than we wait
	defer func() {
		if !handedOn {
			memory.release()
		}
	}()
	content, err := readBody(r, target.source, memory)
	if err != nil {
		return bodyAnswer(err)
	}
	if err := target.source.Verifier.Verify(r.Header, content.signed, target.keyring.Keys(), h.now()); err != nil {
		a := answer{status: target.source.RejectStatus, outcome: "rejected_malformed", detail: err.Error()}
		var rejection *signature.Rejection
		if errors.As(err, &rejection) {
			a.outcome = "rejected_" + string(rejection.Reason)
		}
		return a
	}
	identity := target.source.Identify(r.Header, content.plain)
	if identity.Test {
		return answer{status: http.StatusNoContent, outcome: "test"}
	}
	var a answer
	a, handedOn = h.store(inbox.Delivery{
		Source:      target.source.Name,
		EventKey:    identity.EventKey,
		EventType:   identity.EventType,
		Subject:     identity.Subject,
		OccurredAt:  identity.OccurredAt,
		Origin:      inbox.FromDelivery,
		Body:        content.signed,
		Headers:     target.source.Keep(r.Header),
		Traceparent: traceparent(r.Header),
		Quarantine:  identity.Quarantine,
	}, memory)
	return a
}

// w3cTraceparent is version 00 of the W3C trace context, and what a later one
// must begin with.
var w3cTraceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparent is the request's trace context, or empty where it is not one: the
// header is not signed, so it may hold anything.
func traceparent(h http.Header) string {
	if text := h.Get("Traceparent"); w3cTraceparent.MatchString(text) {
		return text
	}
	return ""
}

// bodyAnswer is the answer to a request whose body could not be read.
func bodyAnswer(err error) answer {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: "rejected_too_large", detail: err.Error()}
	case errors.Is(err, errEncoding):
		return answer{status: http.StatusUnsupportedMediaType, outcome: "rejected_encoding", detail: err.Error()}
	case errors.Is(err, errBodyMemory):
		return answer{status: http.StatusServiceUnavailable, outcome: "unavailable", err: err}
	default:
		return answer{status: http.StatusBadRequest, outcome: "rejected_body", detail: err.Error()}
	}
}

// store puts a verified delivery into the inbox, waits for the commit, and
// rings the doorbell for a new row. It says whether the batcher has taken the
// body's memory over.
func (h *handler) store(delivery inbox.Delivery, memory *lease) (a answer, handedOn bool) {
	unavailable := answer{status: http.StatusServiceUnavailable, outcome: "unavailable", key: delivery.EventKey}
	if !h.ready() {
		unavailable.err = errors.New("the database is not ready; see /readyz")
		return unavailable, false
	}
	entry, err := h.batcher.put(delivery, memory)
	if err != nil {
		unavailable.err = err
		return unavailable, false
	}
	timeout := time.NewTimer(h.answerTimeout)
	defer timeout.Stop()
	var result inbox.Inserted
	select {
	case result = <-entry.done:
	case <-timeout.C:
		entry.abandoned.Store(true)
		unavailable.err = errors.New("the database did not answer in time")
		return unavailable, true
	}
	a = answer{status: http.StatusNoContent, outcome: result.Outcome.String(), key: delivery.EventKey, inboxID: result.ID}
	switch {
	case result.Err != nil && errors.Is(result.Err, inbox.ErrUnavailable):
		unavailable.err = result.Err
		return unavailable, true
	case result.Err != nil: // the database refuses this very row: nothing is stored, so no 2xx
		a.status, a.outcome, a.err = http.StatusInternalServerError, "failed", result.Err
	case result.Outcome == inbox.Stored && delivery.Quarantine != "":
		a.outcome, a.detail = "quarantined", delivery.Quarantine
	case result.Outcome == inbox.Stored:
		announcement := &busv1.Announcement{InboxId: result.ID, Source: delivery.Source, EventKey: delivery.EventKey}
		if err := h.announce(announcement, delivery.Traceparent); err != nil {
			h.metrics.announceFailures.Inc()
		}
	}
	return a, true
}

// logAnswer writes the one line about a delivery.
func (h *handler) logAnswer(c echo.Context, source string, a answer, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case a.err != nil:
		level = slog.LevelError
	case a.status >= 400 || a.outcome == "conflict" || a.outcome == "quarantined":
		level = slog.LevelWarn
	}
	ctx := c.Request().Context()
	if !h.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("source", source), slog.String("outcome", a.outcome), slog.Int("status", a.status),
		slog.Float64("ms", float64(took.Microseconds())/1000),
	}
	for _, text := range []struct{ key, value string }{{"event_key", a.key}, {"detail", a.detail}} {
		if text.value != "" {
			attrs = append(attrs, slog.String(text.key, text.value))
		}
	}
	if a.inboxID != 0 {
		attrs = append(attrs, slog.Int64("inbox_id", a.inboxID))
	}
	if a.err != nil {
		attrs = append(attrs, slog.Any("error", a.err))
	}
	h.log.LogAttrs(ctx, level, "delivery", attrs...)
}

func retryAfterHeader(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

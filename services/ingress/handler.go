package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/signature"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
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
	announce      func(context.Context, *busv1.Announcement) error
	memory        *budget
	answerTimeout time.Duration
	retryAfter    string
	ready         func() bool
	draining      func() bool
	metrics       *metrics
	log           *slog.Logger
	tracer        *tracing.Tracer
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
	events  []string // the outcome of each event that the body held, where it got so far
}

// The outcomes beside inbox.Outcome's and rejected_*.
const (
	outcomeTest        = "test"
	outcomeQuarantined = "quarantined"
	outcomeUnavailable = "unavailable"
	outcomeFailed      = "failed"

	rejectedTooLarge = "rejected_too_large"
	rejectedEncoding = "rejected_encoding"
	rejectedBody     = "rejected_body"
)

// rejected is the outcome of a delivery whose signature does not hold.
func rejected(reason signature.Reason) string { return "rejected_" + string(reason) }

// weight orders the outcomes of one body's events by how much they are worth
// telling.
func weight(outcome string) int {
	return slices.Index([]string{
		inbox.Duplicate.String(), inbox.Stored.String(), outcomeQuarantined, inbox.Conflict.String(), outcomeFailed,
	}, outcome)
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
	ctx, span := h.begin(r, target.source.Name)
	a := h.receive(ctx, r, target)
	ended := h.now()
	h.metrics.observe(target.source.Name, a, ended, ended.Sub(began))
	h.logAnswer(ctx, target.source.Name, a, ended.Sub(began))
	finish(span, a)
	if a.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", h.retryAfter)
	}
	return c.NoContent(a.status)
}

// eventBytes is about what one of several events takes besides its body until it
// is written: little bodies can hold many.
const eventBytes = 1 << 10

// receive verifies and stores a delivery.
func (h *handler) receive(ctx context.Context, r *http.Request, target endpoint) answer {
	memory := &lease{budget: h.memory}
	handedOn := false // to the batcher, which may hold the body for longer than we wait
	defer func() {
		if !handedOn {
			memory.release()
		}
	}()
	content, err := h.read(ctx, r, target.source, memory)
	if err != nil {
		return bodyAnswer(err)
	}
	if a := h.verify(ctx, r, content.signed, target); a.outcome != "" {
		return a
	}
	events := target.source.Events(r.Header, content.signed, content.plain)
	if len(events) > 1 && !memory.grow(int64(len(events))*eventBytes) {
		return bodyAnswer(errBodyMemory)
	}
	traceparent, headers := tracing.Traceparent(ctx), target.source.Keep(r.Header)
	deliveries := make([]inbox.Delivery, 0, len(events))
	for _, event := range events {
		if event.Test {
			continue
		}
		deliveries = append(deliveries, inbox.Delivery{
			Source:      target.source.Name,
			EventKey:    event.EventKey,
			EventType:   event.EventType,
			Subject:     event.Subject,
			OccurredAt:  event.OccurredAt,
			Origin:      inbox.FromDelivery,
			Body:        event.Body,
			Headers:     headers,
			Traceparent: traceparent,
			Quarantine:  event.Quarantine,
		})
	}
	if len(deliveries) == 0 {
		return answer{status: http.StatusNoContent, outcome: outcomeTest}
	}
	var a answer
	a, handedOn = h.store(ctx, deliveries, memory)
	return a
}

// read reads the body.
func (h *handler) read(ctx context.Context, r *http.Request, src *source.Source, memory *lease) (body, error) {
	_, span := h.tracer.Child(ctx, "read")
	defer span.End()
	content, err := readBody(r, src, memory)
	if err != nil {
		tracing.FailAs(span, bodyAnswer(err).outcome)
	}
	return content, err
}

// verify returns the answer to a delivery that is rejected, and none to one that
// the source has signed.
func (h *handler) verify(ctx context.Context, r *http.Request, signed []byte, target endpoint) answer {
	_, span := h.tracer.Child(ctx, "verify")
	defer span.End()
	err := target.source.Verifier.Verify(r.Header, signed, target.keyring.Keys(), h.now())
	if err == nil {
		return answer{}
	}
	a := answer{status: target.source.RejectStatus, outcome: rejected(signature.Malformed), detail: err.Error()}
	var rejection *signature.Rejection
	if errors.As(err, &rejection) {
		a.outcome = rejected(rejection.Reason)
	}
	tracing.FailAs(span, a.outcome)
	return a
}

// bodyAnswer is the answer to a request whose body could not be read.
func bodyAnswer(err error) answer {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: rejectedTooLarge, detail: err.Error()}
	case errors.Is(err, errEncoding):
		return answer{status: http.StatusUnsupportedMediaType, outcome: rejectedEncoding, detail: err.Error()}
	case errors.Is(err, errBodyMemory):
		return answer{status: http.StatusServiceUnavailable, outcome: outcomeUnavailable, err: err}
	default:
		return answer{status: http.StatusBadRequest, outcome: rejectedBody, detail: err.Error()}
	}
}

// store puts the deliveries of one verified body into the inbox, and rings the
// doorbell for new rows. It says whether the batcher has taken the body's memory
// over.
func (h *handler) store(ctx context.Context, deliveries []inbox.Delivery, memory *lease) (a answer, handedOn bool) {
	inserted, handedOn, err := h.insert(ctx, deliveries, memory)
	if err != nil {
		return answer{status: http.StatusServiceUnavailable, outcome: outcomeUnavailable, key: deliveries[0].EventKey, err: err}, handedOn
	}
	return h.stored(ctx, deliveries, inserted), handedOn
}

// insert waits for the deliveries' commit.
func (h *handler) insert(ctx context.Context, deliveries []inbox.Delivery, memory *lease) (inserted []inbox.Inserted, handedOn bool, err error) {
	ctx, span := h.tracer.Child(ctx, "store")
	defer func() { endStore(span, inserted, err) }()
	if !h.ready() {
		return nil, false, errors.New("the database is not ready; see /readyz")
	}
	entry, err := h.batcher.put(ctx, memory, deliveries...)
	if err != nil {
		return nil, false, err
	}
	timeout := time.NewTimer(h.answerTimeout)
	defer timeout.Stop()
	select {
	case result := <-entry.done:
		return result.inserted, true, result.err
	case <-timeout.C:
		entry.abandoned.Store(true)
		return nil, true, errors.New("the database did not answer in time")
	}
}

// stored is the answer to a body whose deliveries have been written, of which
// the most noteworthy speaks for all.
func (h *handler) stored(ctx context.Context, deliveries []inbox.Delivery, inserted []inbox.Inserted) answer {
	var worst answer
	events := make([]string, len(inserted))
	for i, result := range inserted {
		d := &deliveries[i]
		a := answer{status: http.StatusNoContent, outcome: result.Outcome.String(), key: d.EventKey, inboxID: result.ID}
		switch {
		case result.Err != nil: // the database refuses this very row: it is not stored, so no 2xx
			a.status, a.outcome, a.err = http.StatusInternalServerError, outcomeFailed, result.Err
		case result.Outcome == inbox.Stored && d.Quarantine != "":
			a.outcome, a.detail = outcomeQuarantined, d.Quarantine
		case result.Outcome == inbox.Stored:
			if err := h.announce(ctx, &busv1.Announcement{InboxId: result.ID, Source: d.Source, EventKey: d.EventKey}); err != nil {
				h.metrics.announceFailures.Inc()
			}
		}
		events[i] = a.outcome
		if i == 0 || weight(a.outcome) > weight(worst.outcome) {
			worst = a
		}
	}
	worst.events = events
	return worst
}

// logAnswer writes the one line about a delivery.
func (h *handler) logAnswer(ctx context.Context, source string, a answer, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case a.err != nil:
		level = slog.LevelError
	case a.status >= 400 || weight(a.outcome) > weight(inbox.Stored.String()):
		level = slog.LevelWarn
	}
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
	if len(a.events) > 1 {
		attrs = append(attrs, slog.Int("events", len(a.events)))
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

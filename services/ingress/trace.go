package ingress

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/tracing"
)

const route = "/hooks/{source}"

// serverSpan is made once, since it is needed for each request.
var serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// begin starts a request's span, below the sender's where it names one: the
// header is not signed, so it may hold anything, and what is no trace context is
// no reason to refuse a delivery. Where nothing is traced, it is the sender's
// context that goes on.
//
// This is done by hand, since otelhttp works out the attributes of every request,
// recorded or not: that takes ten times as long, and 30 allocations.
//
// The context is not put into the request either: that would copy it.
func (h *handler) begin(r *http.Request, source string) (context.Context, trace.Span) {
	ctx := tracing.WithTraceparent(r.Context(), r.Header.Get(tracing.Header))
	ctx, span := h.tracer.Start(ctx, http.MethodPost+" "+route, serverSpan...)
	if span.IsRecording() {
		peer, _, _ := net.SplitHostPort(r.RemoteAddr)
		span.SetAttributes(
			semconv.HTTPRequestMethodPost, semconv.HTTPRoute(route), semconv.URLPath(r.URL.Path),
			semconv.NetworkPeerAddress(peer), semconv.UserAgentOriginal(r.UserAgent()), tracing.SourceKey.String(source))
	}
	return ctx, span
}

// finish ends a request's span with its answer. As the conventions have it, an
// answer below 500 is no failure of the server.
func finish(span trace.Span, a answer) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(a.status), tracing.OutcomeKey.String(a.outcome))
	if a.key != "" {
		span.SetAttributes(tracing.EventKeyKey.String(a.key))
	}
	if a.inboxID != 0 {
		span.SetAttributes(tracing.InboxIDKey.Int64(a.inboxID))
	}
	if a.status >= http.StatusInternalServerError {
		tracing.FailAs(span, a.outcome)
	}
}

// endStore ends the span of a body's wait for its insert, that included.
func endStore(span trace.Span, inserted []inbox.Inserted, err error) {
	defer span.End()
	if err != nil {
		tracing.FailAs(span, outcomeUnavailable)
	}
	for _, one := range inserted {
		tracing.Fail(span, one.Err)
	}
}

// trace writes down one insert: in each of its deliveries' traces, and as a
// trace of its own with links to them. Deliveries whose traces are not recorded
// cost nothing.
func (b *batcher) trace(entries []*entry, rows int, began time.Time, err error) {
	if !b.tracer.On() {
		return
	}
	var links []trace.Link
	var spans []trace.Span
	for _, e := range entries {
		if !trace.SpanContextFromContext(e.ctx).IsSampled() {
			continue
		}
		_, span := b.tracer.Start(e.ctx, "insert", trace.WithTimestamp(began))
		links, spans = append(links, tracing.LinkTo(span.SpanContext())), append(spans, span)
	}
	if len(links) == 0 {
		return
	}
	const table = "inbox"
	_, batch := b.tracer.Start(context.Background(), "insert "+table, trace.WithLinks(links...),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began),
		trace.WithAttributes(semconv.DBSystemNamePostgreSQL, semconv.DBOperationName("insert"), semconv.DBCollectionName(table)))
	for _, span := range spans {
		span.AddLink(tracing.LinkTo(batch.SpanContext()))
	}
	ended := trace.WithTimestamp(time.Now())
	for _, span := range append(spans, batch) {
		span.SetAttributes(attribute.Int("db.operation.batch.size", rows))
		tracing.Fail(span, err)
		span.End(ended)
	}
}

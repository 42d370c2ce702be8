package tracing

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// What a span is about. A trace is found in Jaeger by any of these.
const (
	SourceKey   = attribute.Key("catchwater.source")
	EventKeyKey = attribute.Key("catchwater.event_key")
	InboxIDKey  = attribute.Key("catchwater.inbox_id")
	OutcomeKey  = attribute.Key("catchwater.outcome")
	ViaKey      = attribute.Key("catchwater.via") // doorbell or scan
	AttemptKey  = attribute.Key("catchwater.attempt")
)

// Start starts a span below that of ctx, or, where ctx has none, a trace.
func (t *Tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !t.On() {
		return ctx, nothing
	}
	return t.tracer.Start(ctx, name, options...)
}

// Child starts a span below that of ctx, if that one is recorded; else it
// returns ctx and a span that does nothing.
func (t *Tracer) Child(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !t.On() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nothing
	}
	return t.tracer.Start(ctx, name, options...)
}

// nothing is the span of no context: it does nothing.
var nothing = trace.SpanFromContext(context.Background())

// LinkTo returns the link to a span, by its context.
func LinkTo(to trace.SpanContext) trace.Link { return trace.Link{SpanContext: to} }

// Publishing are the attributes of a span that publishes one message.
func Publishing(subject, id string) []attribute.KeyValue {
	return append(messaging(subject, "publish", semconv.MessagingOperationTypeSend), semconv.MessagingMessageID(id))
}

// Processing are the attributes of a span that processes one message.
func Processing(subject, id string) []attribute.KeyValue {
	return append(messaging(subject, "process", semconv.MessagingOperationTypeProcess), semconv.MessagingMessageID(id))
}

// ProcessingBatch are the attributes of a span that processes several messages.
func ProcessingBatch(subject string, messages int) []attribute.KeyValue {
	return append(messaging(subject, "process", semconv.MessagingOperationTypeProcess), semconv.MessagingBatchMessageCount(messages))
}

func messaging(subject, operation string, kind attribute.KeyValue) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "nats"), semconv.MessagingDestinationName(subject),
		semconv.MessagingOperationName(operation), kind,
	}
}

// Fail marks a span as failed, with the kind of the error; nil does nothing.
func Fail(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		FailAs(span, Kind(err))
	}
}

// FailAs marks a span as failed, with a kind of error: one of few, and nothing
// that a sender has said.
func FailAs(span trace.Span, kind string) {
	span.SetStatus(codes.Error, kind)
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
}

// Kind is what may be told of an error to everybody: its text may quote a body,
// a query's values or an address with a password in it.
func Kind(err error) string {
	var refused *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, &refused):
		return "SQLSTATE " + refused.Code
	case errors.Is(err, context.DeadlineExceeded):
		return "time-out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &network):
		return "network"
	}
	for { // the innermost says most
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}

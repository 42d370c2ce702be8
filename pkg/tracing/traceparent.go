package tracing

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the name of the W3C trace context's header, in lower case: NATS
// headers are case-sensitive.
const Header = "traceparent"

// traceparentBytes is the length of a traceparent of version 00.
const traceparentBytes = 55

// Traceparent is the trace context of ctx as text, empty where there is none.
func Traceparent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	traceID, spanID := span.TraceID(), span.SpanID()
	text := make([]byte, 0, traceparentBytes)
	text = hex.AppendEncode(append(text, "00-"...), traceID[:])
	text = hex.AppendEncode(append(text, '-'), spanID[:])
	text = hex.AppendEncode(append(text, '-'), []byte{byte(span.TraceFlags() & trace.FlagsSampled)})
	return string(text)
}

// WithTraceparent returns a ctx whose spans are children of the span that the
// text names. A text that is no traceparent, which may come from anybody, leaves
// ctx as it is.
func WithTraceparent(ctx context.Context, text string) context.Context {
	if text == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{Header: text})
}

// SpanContext is the one that a traceparent names; it is not valid where the
// text is none.
func SpanContext(text string) trace.SpanContext {
	return trace.SpanContextFromContext(WithTraceparent(context.Background(), text))
}

// Sampled reports whether a traceparent says that its trace is recorded. It
// costs next to nothing, and so comes before all else that is done per row.
func Sampled(text string) bool {
	if len(text) < traceparentBytes {
		return false
	}
	switch text[traceparentBytes-1] { // the last digit of the flags
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return SpanContext(text).IsSampled()
	}
	return false
}

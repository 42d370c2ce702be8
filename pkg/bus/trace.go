package bus

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/tracing"
)

// producerSpan is made once, since it is needed for each message.
var producerSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}

// awaitAck ends the span of a publish when the broker has acknowledged it, has
// not in time, or is waited for no longer.
func (b *Bus) awaitAck(span trace.Span, ack jetstream.PubAckFuture) {
	select {
	case <-ack.Ok():
		endPublish(span, nil)
	case err := <-ack.Err():
		endPublish(span, err)
	case <-b.closed:
		endPublish(span, errDisconnected)
	}
}

// endPublish ends the span of a publish. An error is of ours or the client
// library's making.
func endPublish(span trace.Span, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errDisconnected):
		tracing.FailAs(span, "disconnected")
	case errors.Is(err, errOutboxFull):
		tracing.FailAs(span, "outbox full")
	default:
		tracing.FailAs(span, "not acknowledged")
	}
	span.End()
}

// Traceparent is the trace context that came with a message, empty where none
// did.
func Traceparent(msg jetstream.Msg) string { return msg.Headers().Get(tracing.Header) }

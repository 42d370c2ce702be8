package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// quietExporter logs that spans cannot be sent once an outage, not once a try,
// and to the service's own log.
type quietExporter struct {
	sdktrace.SpanExporter
	log      *slog.Logger
	endpoint string
	away     atomic.Bool
}

func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.away.Swap(true):
		e.log.Warn("traces cannot be sent; spans are dropped until they can", slog.String("endpoint", e.endpoint), slog.Any("error", err))
	case err == nil && e.away.Swap(false):
		e.log.Info("traces are sent again", slog.String("endpoint", e.endpoint))
	}
	return nil // told; there is nobody else to tell
}

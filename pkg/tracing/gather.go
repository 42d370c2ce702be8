package tracing

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// gatherFor is how long spans that have ended are held.
	gatherFor = 100 * time.Millisecond
	// mostGathered bounds how many: more are passed on at once.
	mostGathered = 256
)

// gatherer passes spans that have ended on to another processor many at a time.
// The SDK's wakes a goroutine for each span: in a service that waits for its
// database most of the time that costs more than all else about the span.
type gatherer struct {
	sdktrace.SpanProcessor

	mu    sync.Mutex
	ended []sdktrace.ReadOnlySpan
}

// OnEnd holds a span; the first one sees to it that all are passed on.
func (g *gatherer) OnEnd(span sdktrace.ReadOnlySpan) {
	g.mu.Lock()
	g.ended = append(g.ended, span)
	held := len(g.ended)
	g.mu.Unlock()
	switch held {
	case 1:
		time.AfterFunc(gatherFor, g.passOn)
	case mostGathered:
		g.passOn()
	}
}

func (g *gatherer) passOn() {
	g.mu.Lock()
	ended := g.ended
	g.ended = nil
	g.mu.Unlock()
	for _, span := range ended {
		g.SpanProcessor.OnEnd(span)
	}
}

// ForceFlush passes everything on and has it sent.
func (g *gatherer) ForceFlush(ctx context.Context) error {
	g.passOn()
	return g.SpanProcessor.ForceFlush(ctx)
}

// Shutdown has everything sent, and takes no more.
func (g *gatherer) Shutdown(ctx context.Context) error {
	g.passOn()
	return g.SpanProcessor.Shutdown(ctx)
}

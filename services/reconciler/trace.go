package reconciler

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// beginRequest starts the trace of one poll, where it is handed out.
func (r *reconciler) beginRequest(ctx context.Context, j job) (context.Context, trace.Span) {
	ctx, span := r.tracer.Start(ctx, "hand out")
	j.describe(span)
	return ctx, span
}

// beginPoll starts the span of making a poll, in the trace that began where it
// was handed out. The row that comes of it goes on with that trace.
func (r *reconciler) beginPoll(ctx context.Context, j job) (context.Context, trace.Span) {
	subject := bus.PollSubject(j.provider.source.Name)
	ctx, span := r.tracer.Child(tracing.WithTraceparent(ctx, j.traceparent), "process "+subject, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(tracing.Processing(subject, strconv.FormatInt(j.task.ID, 10))...)
		j.describe(span)
	}
	return ctx, span
}

// describe says what a poll is about: a task's id is its event's key.
func (j job) describe(span trace.Span) {
	if span.IsRecording() {
		span.SetAttributes(tracing.SourceKey.String(j.provider.source.Name), tracing.EventKeyKey.String(j.task.TaskID))
	}
}

// ask asks the provider, in a span of its own.
func (r *reconciler) ask(ctx context.Context, j job) (answer, error) {
	ctx, span := r.tracer.Child(ctx, "ask the provider", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	said, err := j.provider.subject.ask(ctx, j.provider, j.task.TaskID)
	tracing.Fail(span, err)
	return said, err
}

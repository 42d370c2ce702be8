package processor

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// The two ways on which rows come to be processed.
const (
	viaDoorbell = "doorbell"
	viaScan     = "scan"
)

// batchSpan is the trace of one batch: a span in the trace of each of its rows,
// and one of its own that links to them. Rows whose traces are not recorded cost
// nothing.
type batchSpan struct {
	tracer  *tracing.Tracer
	batch   trace.Span
	rows    map[int64]rowSpan // by inbox id; those that are recorded
	applied time.Time
}

type rowSpan struct {
	trace.Span
	ctx context.Context // of the span
}

// beginBatch starts the spans of a batch whose claim began at a time and has
// just been answered. What the rows lead to goes on below their new spans.
func beginBatch(ctx context.Context, tracer *tracing.Tracer, via string, rows []inbox.Row, began time.Time) (context.Context, *batchSpan) {
	s := &batchSpan{tracer: tracer, rows: make(map[int64]rowSpan)}
	if !tracer.On() {
		return ctx, s
	}
	claimed, from := time.Now(), trace.WithTimestamp(began)
	var links []trace.Link
	for i := range rows {
		row := &rows[i]
		if !tracing.Sampled(row.Traceparent) {
			continue
		}
		subject := bus.InboxSubject(row.Source)
		rowCtx, span := tracer.Child(tracing.WithTraceparent(context.Background(), row.Traceparent), "process "+subject,
			from, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(tracing.Processing(subject, strconv.FormatInt(row.ID, 10))...),
			trace.WithAttributes(
				tracing.SourceKey.String(row.Source), tracing.EventKeyKey.String(row.EventKey), tracing.InboxIDKey.Int64(row.ID),
				tracing.ViaKey.String(via), tracing.AttemptKey.Int(row.Attempts+1), attribute.String("catchwater.origin", string(row.Origin))))
		part(rowCtx, tracer, "claim", began, claimed)
		row.Traceparent = tracing.Traceparent(rowCtx)
		s.rows[row.ID] = rowSpan{span, rowCtx}
		links = append(links, trace.LinkFromContext(rowCtx))
	}
	ctx, s.batch = tracer.Start(ctx, "process catchwater.inbox", from, trace.WithLinks(links...), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(tracing.ProcessingBatch("catchwater.inbox", len(rows))...), trace.WithAttributes(tracing.ViaKey.String(via)))
	for _, row := range s.rows {
		row.AddLink(tracing.LinkTo(s.batch.SpanContext()))
	}
	return ctx, s
}

// part is a span whose times are known.
func part(ctx context.Context, tracer *tracing.Tracer, name string, began, ended time.Time) {
	_, span := tracer.Child(ctx, name, trace.WithTimestamp(began))
	span.End(trace.WithTimestamp(ended))
}

// projected notes that the projections have been applied, since a time.
func (s *batchSpan) projected(began time.Time) {
	s.applied = time.Now()
	for _, row := range s.rows {
		part(row.ctx, s.tracer, "project", began, s.applied)
	}
}

// end ends the spans with what became of the batch.
func (s *batchSpan) end(result outcome, err error) {
	if s.batch == nil {
		return
	}
	ended := time.Now()
	outcomes := make(map[int64]string, len(result.failures)+len(result.waiting))
	for _, failure := range result.failures {
		outcomes[failure.ID] = outcomeOf(failure)
		tracing.Fail(s.rows[failure.ID].orNothing(), failure.Err)
	}
	for _, wait := range result.waiting {
		outcomes[wait.ID] = rowWaiting
	}
	for id, row := range s.rows {
		outcome := outcomes[id]
		switch {
		case err != nil:
			outcome = "rolled_back"
			tracing.Fail(row, err)
		case outcome == "":
			outcome = rowProcessed
		}
		row.SetAttributes(tracing.OutcomeKey.String(outcome))
		if !s.applied.IsZero() {
			part(row.ctx, s.tracer, "commit", s.applied, ended)
		}
		row.End(trace.WithTimestamp(ended))
	}
	tracing.Fail(s.batch, err)
	s.batch.SetAttributes(attribute.Int("catchwater.failed", len(result.failures)), attribute.Int("catchwater.waiting", len(result.waiting)))
	s.batch.End(trace.WithTimestamp(ended))
}

// orNothing is a row's span, or one that does nothing.
func (s rowSpan) orNothing() trace.Span {
	if s.Span == nil {
		return trace.SpanFromContext(context.Background())
	}
	return s.Span
}

// outcomeOf is a failure in one word.
func outcomeOf(failure inbox.Failure) string {
	if failure.Quarantine {
		return rowQuarantined
	}
	return rowFailed
}

// belowMessages makes the rows' traces go on below the messages that told of
// them. A row of which nobody told goes on below its receipt.
func belowMessages(rows []inbox.Row, byID map[int64][]jetstream.Msg) {
	for i := range rows {
		for _, msg := range byID[rows[i].ID] {
			if text := bus.Traceparent(msg); tracing.Sampled(text) {
				rows[i].Traceparent = text
			}
		}
	}
}

// callSpan starts the span of a call of an effect, in the trace of the event that
// led to it.
func callSpan(ctx context.Context, tracer *tracing.Tracer, call *effects.Call) (context.Context, trace.Span) {
	ctx = tracing.WithTraceparent(ctx, call.Traceparent)
	ctx, span := tracer.Child(ctx, "perform "+call.Name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(tracing.SourceKey.String(call.Source), tracing.EventKeyKey.String(call.EventKey),
			attribute.String("catchwater.effect", call.Name), tracing.AttemptKey.Int(call.Attempt), attribute.Bool("catchwater.repeated", call.Repeated))
	}
	return ctx, span
}

package bus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/catchwater/catchwater/pkg/tracing"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

const (
	inboxSubjects = "catchwater.inbox."
	pollSubjects  = "catchwater.poll."
)

// InboxSubject is what a source's inbox rows are announced on.
func InboxSubject(source string) string { return inboxSubjects + source }

// PollSubject is what polls of a source are asked for on.
func PollSubject(source string) string { return pollSubjects + source }

// Announce says that an inbox row is there to be claimed. It does not wait; an
// error means that nobody has been told, and that the processors will find the
// row by themselves when it comes due. The trace of ctx goes with the message,
// if it is recorded.
func (b *Bus) Announce(ctx context.Context, a *busv1.Announcement) error {
	return b.message(ctx, InboxSubject(a.GetSource()), a, about{source: a.GetSource(), key: a.GetEventKey(), id: a.GetInboxId()})
}

// AskForPoll hands a poll to whichever reconciler takes it. It does not wait;
// an error means that nobody has been asked. The trace of ctx goes with the
// message, if it is recorded.
func (b *Bus) AskForPoll(ctx context.Context, p *busv1.PollRequest) error {
	return b.message(ctx, PollSubject(p.GetSource()), p, about{source: p.GetSource(), key: p.GetTaskId(), id: p.GetSubmittedTaskId()})
}

// about says what a message is about: an event, and a row's id.
type about struct {
	source, key string
	id          int64
}

func (b *Bus) message(ctx context.Context, subject string, m proto.Message, of about) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message for %s: %w", subject, err)
	}
	ctx, span := b.tracer.Child(ctx, "publish "+subject, producerSpan...)
	if span.IsRecording() {
		span.SetAttributes(tracing.Publishing(subject, strconv.FormatInt(of.id, 10))...)
		span.SetAttributes(tracing.SourceKey.String(of.source), tracing.EventKeyKey.String(of.key))
	}
	msg := &nats.Msg{Subject: subject, Data: data}
	// A trace that is not recorded is not worth a header, which would cost more than
	// the rest of the message; the row has its context all the same.
	if trace.SpanContextFromContext(ctx).IsSampled() {
		msg.Header = nats.Header{tracing.Header: {tracing.Traceparent(ctx)}}
	}
	if err := b.post(posted{msg, span}); err != nil {
		endPublish(span, err)
		return fmt.Errorf("post on %s: %w", subject, err)
	}
	return nil
}

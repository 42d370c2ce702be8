package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

const (
	inboxSubjects = "catchwater.inbox."
	pollSubjects  = "catchwater.poll."

	// traceparentHeader is lower case: NATS headers are case-sensitive.
	traceparentHeader = "traceparent"
)

// Announce says that an inbox row is there to be claimed. It does not wait; an
// error means that nobody has been told, and that the processors will find the
// row by themselves when it comes due.
func (b *Bus) Announce(a *busv1.Announcement, traceparent string) error {
	return b.message(inboxSubjects+a.GetSource(), a, traceparent)
}

// AskForPoll hands a poll to whichever reconciler takes it. It does not wait;
// an error means that nobody has been asked.
func (b *Bus) AskForPoll(p *busv1.PollRequest) error {
	return b.message(pollSubjects+p.GetSource(), p, "")
}

func (b *Bus) message(subject string, m proto.Message, traceparent string) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message for %s: %w", subject, err)
	}
	msg := &nats.Msg{Subject: subject, Data: data}
	if traceparent != "" {
		msg.Header = nats.Header{traceparentHeader: {traceparent}}
	}
	if err := b.post(msg); err != nil {
		return fmt.Errorf("post on %s: %w", subject, err)
	}
	return nil
}

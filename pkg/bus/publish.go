package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store publishes a message and returns when a stream has stored it, or had
// stored one with the same Nats-Msg-Id within its window. After an error it may
// have been stored, but not after nats.ErrMaxPayload.
func (b *Bus) Store(ctx context.Context, msg *nats.Msg) error {
	if !b.conn.IsConnected() {
		return errDisconnected // else the publish would wait for its time-out
	}
	if _, err := b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0)); err != nil {
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			return fmt.Errorf("publish on %s: no stream has this subject: make one, or let the server's word be enough (confirm: server)", msg.Subject)
		}
		return b.notPublished(msg, err)
	}
	return nil
}

// Send publishes a message and returns when the server has taken it, whoever is
// listening. After an error it may have been taken, but not after
// nats.ErrMaxPayload.
func (b *Bus) Send(ctx context.Context, msg *nats.Msg) error {
	if !b.conn.IsConnected() {
		return errDisconnected
	}
	if err := b.conn.PublishMsg(msg); err != nil {
		return b.notPublished(msg, err)
	}
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish on %s: the server did not confirm: %w", msg.Subject, err)
	}
	return nil
}

func (b *Bus) notPublished(msg *nats.Msg, err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("publish on %s: the body has %d bytes, and the server takes %d with the headers: %w", msg.Subject, len(msg.Data), b.conn.MaxPayload(), err)
	}
	return fmt.Errorf("publish on %s: %w", msg.Subject, err)
}

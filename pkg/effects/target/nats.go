package target

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// natsTarget publishes on the broker.
type natsTarget struct {
	still
	settings *source.NATSEffect
	broker   Broker
}

func (t natsTarget) Perform(ctx context.Context, call *effects.Call) error {
	body, header, err := content(call, t.settings.Body)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: t.settings.Subject, Data: body, Header: nats.Header(header)}
	msg.Header.Set(nats.MsgIdHdr, call.Key()) // which a stream deduplicates by
	msg.Header.Set("Idempotency-Key", call.Key())
	if traceparent := tracing.Traceparent(ctx); traceparent != "" {
		msg.Header.Set(tracing.Header, traceparent)
	}
	if t.settings.Confirm == source.ConfirmServer {
		return t.broker.Send(ctx, msg)
	}
	return t.broker.Store(ctx, msg)
}

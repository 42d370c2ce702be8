package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
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
	publish := t.broker.Store
	if t.settings.Confirm == source.ConfirmServer {
		publish = t.broker.Send
	}
	err = publish(ctx, msg)
	if errors.Is(err, nats.ErrMaxPayload) { // it stays as large
		advice := "raise max_payload of the NATS server"
		if t.settings.Body == source.BodyEvent {
			advice += ", or have the effect publish the delivery alone (body: raw), which is smaller"
		}
		return &inbox.PermanentError{Err: fmt.Errorf("%w; %s", err, advice)}
	}
	return err
}

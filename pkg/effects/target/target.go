// Package target performs effects: an HTTP call, a message to a chat, a publish
// on the broker, or a Go program's own handler. It makes one attempt and says what
// came of it; when to make the next is for whoever calls it.
package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
)

// Target performs the calls of one effect. It is safe for concurrent use.
type Target interface {
	// Perform makes one attempt. Nil means that the effect has happened; any error,
	// that it has not, or that nobody can tell: no answer came. Where more is known
	// the error wraps an Error.
	Perform(ctx context.Context, call *effects.Call) error
	// Watch follows what may change while the target is in use, until ctx ends.
	Watch(ctx context.Context)
}

// Error is an answer that says no.
type Error struct {
	Text string
	// RetryAfter is how long the other side asks to be left alone; 0 when it does
	// not.
	RetryAfter time.Duration
	// Refused: the call was understood and not taken, so that the same call is
	// unlikely to be taken later, unless something is mended over there.
	Refused bool
}

func (e *Error) Error() string { return e.Text }

// Broker is what publishing needs of a bus.
type Broker interface {
	// Store returns when a stream has stored the message, or had stored one of the
	// same id before. It wraps nats.ErrMaxPayload where the server takes none as large.
	Store(ctx context.Context, msg *nats.Msg) error
	// Send returns when the server has taken the message; errors are as Store's.
	Send(ctx context.Context, msg *nats.Msg) error
}

// Options are what targets are made with.
type Options struct {
	Getenv    func(string) string
	Log       *slog.Logger
	Transport http.RoundTripper
	Broker    Broker // may be nil where no effect publishes
	Handlers  effects.Handlers
	// SecretInterval is how often secret files are looked at for changes.
	SecretInterval time.Duration
}

// Open returns the target of an effect that is not run within the transaction. A
// secret that cannot be read is an error that names its place, never its value.
func Open(s *source.Source, e *source.Effect, o Options) (Target, error) {
	switch {
	case e.HTTP != nil:
		return openHTTP(s, e, o)
	case e.Slack != nil:
		return openSlack(s, e, o)
	case e.NATS != nil:
		return natsTarget{settings: e.NATS, broker: o.Broker}, nil
	}
	return handler(o.Handlers.AfterCommit[e.Handler]), nil
}

// still is a target of which nothing changes.
type still struct{}

func (still) Watch(context.Context) {}

// handler is a Go program's own.
type handler func(ctx context.Context, e effects.Event, idempotencyKey string) error

func (h handler) Perform(ctx context.Context, call *effects.Call) error {
	if call.NoBody {
		return errNoBody
	}
	return h(ctx, call.Event, call.Key())
}

func (handler) Watch(context.Context) {}

// errNoBody says that there is nothing to tell of an event any more.
var errNoBody = &inbox.PermanentError{Err: errors.New("the event's payload has been dropped")}

// notHandedOn are headers of the sender's, which are not those of a call. How the
// bytes are compressed is told by the bytes: a source may store them inflated.
var notHandedOn = []string{"User-Agent", "Content-Encoding", "Authorization", "Cookie", "Host", "Connection"}

// content returns what a call carries, and the headers that say what that is. It
// is the same at each attempt.
func content(call *effects.Call, form source.EffectBody) ([]byte, http.Header, error) {
	if call.NoBody {
		return nil, nil, errNoBody
	}
	header := http.Header{}
	if form == source.BodyEvent {
		body, err := call.JSON()
		header.Set("Content-Type", "application/json")
		return body, header, err
	}
	for name, value := range call.Headers {
		header.Set(name, value)
	}
	for _, name := range notHandedOn {
		header.Del(name)
	}
	row := call.Row()
	if row.Compressed() {
		header.Set("Content-Encoding", "gzip")
	}
	return call.Body, header, nil
}

// placeError says that a secret cannot be read.
func placeError(s *source.Source, e *source.Effect, what string, err error) error {
	return fmt.Errorf("source %q, effect %q: %s: %w", s.Name, e.Name, what, err)
}

package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bus is a connection to the broker that never gives up.
type Bus struct {
	conn *nats.Conn
	js   jetstream.JetStream
	log  *slog.Logger
}

// Options say how to reach the broker.
type Options struct {
	URL         string // comma-separated servers
	Credentials string // path of a credentials file, or empty
	Name        string // shown in the broker's list of connections
	Log         *slog.Logger
	// OnPublishError is called for each publish that the broker did not take
	// or did not acknowledge in time. It may be nil.
	OnPublishError func(error)
}

const (
	reconnectWait  = 500 * time.Millisecond
	publishTimeout = 5 * time.Second
	maxPending     = 8192 // publishes not yet acknowledged
)

// Connect returns at once, connected or not; the connection is made and made
// again in the background for as long as it takes. It fails only on options
// that cannot work.
func Connect(o Options) (*Bus, error) {
	options := []nats.Option{
		nats.Name(o.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait/2, reconnectWait),
		nats.ReconnectBufSize(-1), // a doorbell rung while nobody listens is not kept
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Log.Warn("the broker went away; working from the inbox alone", slog.Any("error", err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			o.Log.Info("the broker is back", slog.String("url", c.ConnectedUrlRedacted()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Log.Warn("the broker reports an error", slog.Any("error", err))
		}),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	conn, err := nats.Connect(o.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker at %s: %w", o.URL, err)
	}
	onError := o.OnPublishError
	if onError == nil {
		onError = func(error) {}
	}
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(publishTimeout),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { onError(err) }),
	)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Bus{conn: conn, js: js, log: o.Log}, nil
}

// Connected reports whether the broker can be reached now.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// errDisconnected says that a publish was not tried.
var errDisconnected = errors.New("the broker is not connected")

// publish hands a message to the broker without waiting for its answer.
func (b *Bus) publish(msg *nats.Msg) error {
	if !b.conn.IsConnected() {
		return errDisconnected
	}
	_, err := b.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(time.Millisecond))
	return err
}

// Close waits up to the given time for publishes under way, then disconnects.
func (b *Bus) Close(wait time.Duration) {
	if wait > 0 && b.conn.IsConnected() {
		select {
		case <-b.js.PublishAsyncComplete():
		case <-time.After(wait):
			b.log.Warn("closing with publishes unacknowledged", slog.Int("pending", b.js.PublishAsyncPending()))
		}
	}
	b.conn.Close()
}

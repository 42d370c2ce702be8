package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bus is a connection to the broker that never gives up.
type Bus struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	onError func(error)
	// replicas is how many servers keep a copy of each stream that is made.
	replicas int

	outbox  chan *nats.Msg
	closing chan struct{}
	sent    sync.WaitGroup // the sender's end
}

// Options say how to reach the broker.
type Options struct {
	URL         string // comma-separated servers
	Credentials string // path of a credentials file, or empty
	Name        string // shown in the broker's list of connections
	Replicas    int    // copies of each stream that this process makes: 1, 3 or 5; 0 is 1
	Log         *slog.Logger
	// OnPublishError is called for each publish that the broker did not take
	// or did not acknowledge in time. It may be nil.
	OnPublishError func(error)
}

const (
	reconnectWait  = 500 * time.Millisecond
	publishTimeout = 5 * time.Second
	maxPending     = 8192 // publishes not yet acknowledged
	maxOutbox      = 8192 // messages not yet published
	gather         = time.Millisecond
)

// Connect returns at once, connected or not; the connection is made and made
// again in the background for as long as it takes. It fails only on options
// that cannot work.
func Connect(o Options) (*Bus, error) {
	replicas := max(o.Replicas, 1)
	if replicas != 1 && replicas != 3 && replicas != 5 {
		return nil, fmt.Errorf("--nats-replicas is %d: use 1, 3 or 5", o.Replicas)
	}
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
	b := &Bus{conn: conn, js: js, log: o.Log, onError: onError, replicas: replicas, outbox: make(chan *nats.Msg, maxOutbox), closing: make(chan struct{})}
	b.sent.Go(b.send)
	return b, nil
}

// Connected reports whether the broker can be reached now.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// errDisconnected says that a publish was not tried.
var errDisconnected = errors.New("the broker is not connected")

// errOutboxFull says that messages are made faster than they can be sent.
var errOutboxFull = errors.New("too many messages wait to be sent")

// post hands a message to the sender. It waits for nothing; what becomes of the
// message later is OnPublishError's.
func (b *Bus) post(msg *nats.Msg) error {
	if !b.conn.IsConnected() {
		return errDisconnected
	}
	select {
	case b.outbox <- msg:
		return nil
	default:
		return errOutboxFull
	}
}

// send publishes what was posted, apart from those who post it: they have
// senders waiting for an answer. It lets a little gather first, since waking
// the broker for each message by itself costs the machine more than the message.
func (b *Bus) send() {
	for {
		select {
		case msg := <-b.outbox:
			select {
			case <-time.After(gather):
			case <-b.closing:
			}
			b.publish(msg)
		case <-b.closing:
			b.publishPosted()
			return
		}
		b.publishPosted()
	}
}

// publishPosted publishes what has been posted by now.
func (b *Bus) publishPosted() {
	for len(b.outbox) > 0 {
		b.publish(<-b.outbox)
	}
}

func (b *Bus) publish(msg *nats.Msg) {
	if !b.conn.IsConnected() {
		b.onError(errDisconnected)
		return
	}
	if _, err := b.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(time.Millisecond)); err != nil {
		b.onError(err)
	}
}

// Close sends what was posted, waits up to the given time for the broker to
// acknowledge it, and disconnects. What is posted later is lost.
func (b *Bus) Close(wait time.Duration) {
	close(b.closing)
	b.sent.Wait()
	if wait > 0 && b.conn.IsConnected() {
		select {
		case <-b.js.PublishAsyncComplete():
		case <-time.After(wait):
			b.log.Warn("closing with publishes unacknowledged", slog.Int("pending", b.js.PublishAsyncPending()))
		}
	}
	b.conn.Close()
}

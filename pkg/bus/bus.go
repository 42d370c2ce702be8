package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/tracing"
)

// Bus is a connection to the broker that never gives up.
type Bus struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	onError func(error)
	// replicas is how many servers keep a copy of each stream that is made.
	replicas int
	tracer   *tracing.Tracer

	outbox  chan posted
	closing chan struct{}
	closed  chan struct{}
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
	// Tracer traces what is published. It may be nil.
	Tracer *tracing.Tracer
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
	b := &Bus{
		conn: conn, js: js, log: o.Log, onError: onError, replicas: replicas, tracer: o.Tracer,
		outbox: make(chan posted, maxOutbox), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	b.sent.Go(b.send)
	return b, nil
}

// Connected reports whether the broker can be reached now.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// errDisconnected says that a publish was not tried.
var errDisconnected = errors.New("the broker is not connected")

// errOutboxFull says that messages are made faster than they can be sent.
var errOutboxFull = errors.New("too many messages wait to be sent")

// posted is a message on its way, and the span of that.
type posted struct {
	*nats.Msg
	span trace.Span
}

// post hands a message to the sender. It waits for nothing; what becomes of the
// message later is OnPublishError's.
func (b *Bus) post(msg posted) error {
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

func (b *Bus) publish(msg posted) {
	if !b.conn.IsConnected() {
		endPublish(msg.span, errDisconnected)
		b.onError(errDisconnected)
		return
	}
	ack, err := b.js.PublishMsgAsync(msg.Msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(time.Millisecond))
	if err != nil {
		endPublish(msg.span, err)
		b.onError(err)
		return
	}
	if msg.span.IsRecording() {
		go b.awaitAck(msg.span, ack)
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
	close(b.closed)
}

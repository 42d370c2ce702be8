package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Queue names a work-queue stream with its one durable consumer.
type Queue struct {
	stream   jetstream.StreamConfig
	consumer jetstream.ConsumerConfig
}

const (
	ackWait       = 30 * time.Second
	maxAckPending = 10_000
)

// Announcements is the queue of inbox rows.
func Announcements() Queue {
	return queue("CATCHWATER", inboxSubjects+">", "processor", 2_000_000, 256<<20)
}

// Polls is the queue of questions for the providers.
func Polls() Queue {
	return queue("CATCHWATER_POLL", pollSubjects+">", "reconciler", 100_000, 64<<20)
}

// Names returns the names of the queue's stream and of its consumer.
func (q Queue) Names() (stream, consumer string) { return q.stream.Name, q.consumer.Durable }

func queue(stream, subjects, durable string, maxMsgs, maxBytes int64) Queue {
	return Queue{
		stream: jetstream.StreamConfig{
			Name:        stream,
			Description: "A doorbell: ids of rows in Postgres. Losing it loses nothing.",
			Subjects:    []string{subjects},
			Retention:   jetstream.WorkQueuePolicy,
			Storage:     jetstream.FileStorage,
			// Refusing a new message is seen and counted; dropping an old one is not.
			Discard:  jetstream.DiscardNew,
			MaxMsgs:  maxMsgs,
			MaxBytes: maxBytes,
			MaxAge:   24 * time.Hour,
		},
		consumer: jetstream.ConsumerConfig{
			Durable:       durable,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       ackWait,
			MaxDeliver:    -1, // attempts are counted in the row
			MaxAckPending: maxAckPending,
		},
	}
}

const (
	setUpTimeout     = 5 * time.Second
	rebuildWait      = 500 * time.Millisecond
	heartbeat        = 2 * time.Second
	pullExpiry       = 10 * time.Second
	watchdogInterval = 5 * time.Second
	stallAfter       = 15 * time.Second
	giveBackTimeout  = 2 * time.Second
)

// Consumer takes messages from a queue for as long as it runs, whatever
// becomes of the broker meanwhile.
type Consumer struct {
	bus      *Bus
	queue    Queue
	prefetch int
	messages chan jetstream.Msg
	healthy  atomic.Bool
	last     atomic.Int64 // unix nanoseconds of the latest message
}

// NewConsumer returns a Consumer that holds at most prefetch messages that
// nobody has received from Messages yet. About twice what is worked on at a
// time is right: more would outlive the time in which they must be
// acknowledged.
func (b *Bus) NewConsumer(queue Queue, prefetch int) *Consumer {
	return &Consumer{bus: b, queue: queue, prefetch: prefetch, messages: make(chan jetstream.Msg, prefetch)}
}

// Messages is where messages arrive. It is never closed. Each must be
// acknowledged, one way or another, within 30 seconds, or comes again.
func (c *Consumer) Messages() <-chan jetstream.Msg { return c.messages }

// Healthy reports whether the doorbell rings: the broker is connected and a
// consumer is set up on it.
func (c *Consumer) Healthy() bool { return c.healthy.Load() && c.bus.Connected() }

// Run consumes until ctx ends, and then gives back what nobody has received. It
// rebuilds the stream and the consumer when they are missing, so both may be
// deleted at any time.
func (c *Consumer) Run(ctx context.Context) {
	for warned := false; ctx.Err() == nil; {
		err := c.consume(ctx, func() { warned = false })
		c.healthy.Store(false)
		if ctx.Err() != nil {
			return
		}
		if !warned { // once an outage, not once a try
			c.bus.log.Warn("the doorbell is silent; rebuilding it",
				slog.String("stream", c.queue.stream.Name), slog.Any("error", err))
			warned = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(rebuildWait):
		}
	}
}

// consume sets everything up and returns why it stopped.
func (c *Consumer) consume(ctx context.Context, onUp func()) error {
	if !c.bus.Connected() {
		return errDisconnected
	}
	consumer, err := c.setUp(ctx)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	running, err := consumer.Consume(c.receive(ctx),
		jetstream.PullMaxMessages(c.prefetch),
		jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case broken <- err:
			default:
			}
		}))
	if err != nil {
		return fmt.Errorf("consume from %s: %w", c.queue.stream.Name, err)
	}
	defer running.Stop()
	c.last.Store(time.Now().UnixNano())
	c.healthy.Store(true)
	onUp()
	c.bus.log.Info("listening for the doorbell", slog.String("stream", c.queue.stream.Name))

	watchdog := time.NewTicker(watchdogInterval)
	defer watchdog.Stop()
	for {
		select {
		case <-ctx.Done():
			c.giveBack(running)
			return ctx.Err()
		case <-running.Closed():
			return errors.New("the consumer was closed")
		case err := <-broken:
			return err
		case <-watchdog.C:
			if err := c.check(ctx, consumer); err != nil {
				return err
			}
		}
	}
}

func (c *Consumer) setUp(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	stream, err := c.setUpStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up stream %s: %w", c.queue.stream.Name, err)
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, c.queue.consumer)
	if err != nil {
		return nil, fmt.Errorf("set up consumer %s on %s: %w", c.queue.consumer.Durable, c.queue.stream.Name, err)
	}
	return consumer, nil
}

// setUpStream makes the stream, or brings it to its settings. It never takes
// copies away: whoever gave the stream more of them, an operator or a process
// that is set so, meant it.
func (c *Consumer) setUpStream(ctx context.Context) (jetstream.Stream, error) {
	config := c.queue.stream
	config.Replicas = c.bus.replicas
	switch existing, err := c.bus.js.Stream(ctx, config.Name); {
	case err == nil:
		config.Replicas = max(config.Replicas, existing.CachedInfo().Config.Replicas)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	return c.bus.js.CreateOrUpdateStream(ctx, config)
}

func (c *Consumer) receive(ctx context.Context) func(jetstream.Msg) {
	return func(msg jetstream.Msg) {
		c.last.Store(time.Now().UnixNano())
		if ctx.Err() != nil {
			_ = msg.Nak()
			return
		}
		select {
		case c.messages <- msg:
		case <-ctx.Done():
			_ = msg.Nak()
		}
	}
}

// giveBack hands what has been fetched, and what nobody has received from
// Messages, back to the broker, so that others have it at once. Kept, it would
// be theirs only when its time to be acknowledged has run out.
func (c *Consumer) giveBack(running jetstream.ConsumeContext) {
	running.Drain() // through receive
	select {
	case <-running.Closed():
	case <-time.After(giveBackTimeout):
	}
	for {
		select {
		case msg := <-c.messages:
			_ = msg.Nak()
		default:
			return
		}
	}
}

// check catches what the client library does not tell: a stream deleted and
// made anew by somebody else, and a consumer that has work but delivers none.
func (c *Consumer) check(ctx context.Context, consumer jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	info, err := consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("ask about consumer %s: %w", c.queue.consumer.Durable, err)
	}
	quiet := time.Since(time.Unix(0, c.last.Load()))
	idle := len(c.messages) == 0 // else it is the work that is slow
	if info.NumPending > 0 && info.NumAckPending == 0 && idle && quiet > stallAfter {
		return fmt.Errorf("consumer %s has %d messages and delivered none for %s", c.queue.consumer.Durable, info.NumPending, quiet.Round(time.Second))
	}
	return nil
}

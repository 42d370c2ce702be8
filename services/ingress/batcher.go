package ingress

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// inserter stores deliveries; inbox.Store is the one.
type inserter interface {
	Insert(ctx context.Context, deliveries []inbox.Delivery) ([]inbox.Inserted, error)
}

// errQueueFull says that as many deliveries wait as may.
var errQueueFull = errors.New("the queue is full")

// errStopped says that the batcher takes no more.
var errStopped = errors.New("the service is stopping")

// batcher writes deliveries in groups. A flusher that is idle takes whatever
// waits and writes it at once: groups form by themselves while the flushers are
// busy, and a delivery that comes alone waits for nobody.
type batcher struct {
	store    inserter
	maxRows  int
	maxBytes int
	timeout  time.Duration
	queue    chan *entry
	flushers sync.WaitGroup
	onFlush  func(rows int, took time.Duration)

	mu      sync.RWMutex // held for reading while putting into queue, for writing to close it
	stopped bool
}

// entry is a delivery on its way. Its result outlives the request that waits
// for it, so a sender that goes away cancels nobody's insert.
type entry struct {
	delivery inbox.Delivery
	done     chan inbox.Inserted // buffered: the flusher never waits
}

func newBatcher(store inserter, cfg Config, onFlush func(rows int, took time.Duration)) *batcher {
	b := &batcher{
		store: store, maxRows: cfg.BatchRows, maxBytes: cfg.BatchBytes, timeout: cfg.AnswerTimeout,
		queue: make(chan *entry, cfg.QueueRows), onFlush: onFlush,
	}
	for range cfg.Flushers {
		b.flushers.Go(b.flush)
	}
	return b
}

// put queues a delivery. Its result arrives on the channel, always.
func (b *batcher) put(delivery inbox.Delivery) (<-chan inbox.Inserted, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.stopped {
		return nil, errStopped
	}
	e := &entry{delivery: delivery, done: make(chan inbox.Inserted, 1)}
	select {
	case b.queue <- e:
		return e.done, nil
	default:
		return nil, errQueueFull
	}
}

// stop takes no more and returns when everything queued has its result.
func (b *batcher) stop() {
	b.mu.Lock()
	if !b.stopped {
		b.stopped = true
		close(b.queue)
	}
	b.mu.Unlock()
	b.flushers.Wait()
}

// flush is one flusher.
func (b *batcher) flush() {
	entries := make([]*entry, 0, b.maxRows)
	deliveries := make([]inbox.Delivery, 0, b.maxRows)
	for first := range b.queue {
		entries, deliveries = append(entries[:0], first), append(deliveries[:0], first.delivery)
		for bytes := len(first.delivery.Body); len(entries) < b.maxRows && bytes < b.maxBytes; {
			next, ok := b.next()
			if !ok {
				break
			}
			entries, deliveries = append(entries, next), append(deliveries, next.delivery)
			bytes += len(next.delivery.Body)
		}
		b.write(entries, deliveries)
		clear(entries) // let go of the bodies
		clear(deliveries)
	}
}

// next returns a delivery that is waiting already.
func (b *batcher) next() (*entry, bool) {
	select {
	case e, ok := <-b.queue:
		return e, ok
	default:
		return nil, false
	}
}

// write stores one group and tells every entry. What is not about the rows is
// tried once more: a connection that died in the pool says nothing about the
// server, and inserting twice is harmless.
func (b *batcher) write(entries []*entry, deliveries []inbox.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	began := time.Now()
	results, err := b.store.Insert(ctx, deliveries)
	if err != nil && ctx.Err() == nil {
		results, err = b.store.Insert(ctx, deliveries)
	}
	b.onFlush(len(entries), time.Since(began))
	for i, e := range entries {
		if err != nil {
			e.done <- inbox.Inserted{Err: err}
		} else {
			e.done <- results[i]
		}
	}
}

package ingress

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// inserter stores deliveries; inbox.Store is the one.
type inserter interface {
	Insert(ctx context.Context, deliveries []inbox.Delivery) ([]inbox.Inserted, error)
}

// errQueueFull says that as many deliveries wait as may.
var errQueueFull = errors.New("the queue is full")

// errStopped says that the batcher takes no more.
var errStopped = errors.New("the service is stopping")

// batcher writes deliveries in groups. A delivery that finds a flusher idle is
// written at once, by the goroutine that brought it; while all flushers are
// busy deliveries queue up, and the next flusher takes what waits. So groups
// form by themselves under load, and nobody ever waits for company.
type batcher struct {
	store    inserter
	maxRows  int // of a group, exceeded by at most one entry
	maxBytes int
	timeout  time.Duration
	onFlush  func(rows int, took time.Duration)
	tracer   *tracing.Tracer

	queue    chan *entry
	flushing chan struct{} // one token for each flusher at work

	mu      sync.RWMutex // held for reading while putting, for writing to stop
	stopped bool
	held    sync.WaitGroup // deliveries without a result
}

// entry is one request's deliveries on their way: one, or as many as its body
// holds events. Their result outlives the request that waits for it, so a sender
// that goes away cancels nobody's insert.
type entry struct {
	ctx        context.Context // only for its span
	deliveries []inbox.Delivery
	memory     *lease      // of the body, given back when it has been written
	done       chan result // buffered: the flusher never waits
	abandoned  atomic.Bool // nobody waits any more; it need not be written
}

// result is what became of an entry: of each of its deliveries, or, with an
// error, of none that is known.
type result struct {
	inserted []inbox.Inserted
	err      error
}

func newBatcher(store inserter, cfg Config, onFlush func(rows int, took time.Duration), tracer *tracing.Tracer) *batcher {
	return &batcher{
		store: store, maxRows: cfg.BatchRows, maxBytes: cfg.BatchBytes, timeout: cfg.AnswerTimeout, onFlush: onFlush, tracer: tracer,
		queue: make(chan *entry, cfg.QueueRows), flushing: make(chan struct{}, cfg.Flushers),
	}
}

// put takes deliveries with the memory that their body holds, and may write them
// before it returns. The result arrives on the entry's channel, unless the entry
// is abandoned before its turn has come. The end of ctx cancels nothing.
func (b *batcher) put(ctx context.Context, memory *lease, deliveries ...inbox.Delivery) (*entry, error) {
	e := &entry{ctx: ctx, deliveries: deliveries, memory: memory, done: make(chan result, 1)}
	if err := b.enqueue(e); err != nil {
		return nil, err
	}
	if b.takeToken() {
		b.flushGroup()
		if len(b.queue) > 0 {
			go b.flush() // with the token; the sender of this delivery is not to wait for that
		} else {
			b.giveToken()
		}
	}
	return e, nil
}

func (b *batcher) enqueue(e *entry) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.stopped {
		return errStopped
	}
	b.held.Add(1)
	select {
	case b.queue <- e:
		return nil
	default:
		b.held.Done()
		return errQueueFull
	}
}

// stop takes no more and returns when everything taken has its result.
func (b *batcher) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.held.Wait()
}

func (b *batcher) takeToken() bool {
	select {
	case b.flushing <- struct{}{}:
		return true
	default:
		return false
	}
}

// giveToken gives a flusher's token back. A delivery that came after the
// queue's last look, and found all tokens taken, is not left lying.
func (b *batcher) giveToken() {
	<-b.flushing
	if len(b.queue) > 0 && b.takeToken() {
		go b.flush()
	}
}

// flush writes groups until nothing waits, and gives the token back.
func (b *batcher) flush() {
	for len(b.queue) > 0 {
		b.flushGroup()
	}
	b.giveToken()
}

// flushGroup writes what waits, up to one group.
func (b *batcher) flushGroup() {
	var entries []*entry
	var deliveries []inbox.Delivery
	for bytes := 0; len(deliveries) < b.maxRows && bytes < b.maxBytes; {
		select {
		case e := <-b.queue:
			if e.abandoned.Load() {
				b.finish(e)
				continue
			}
			entries, deliveries = append(entries, e), append(deliveries, e.deliveries...)
			for i := range e.deliveries {
				bytes += len(e.deliveries[i].Body)
			}
			continue
		default:
		}
		break
	}
	if len(entries) > 0 {
		b.write(entries, deliveries)
	}
}

// write stores one group and tells every entry. What is not about the rows is
// tried once more: a connection that died in the pool says nothing about the
// server, and inserting twice is harmless.
func (b *batcher) write(entries []*entry, deliveries []inbox.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	began := time.Now()
	inserted, err := b.store.Insert(ctx, deliveries)
	if err != nil && ctx.Err() == nil {
		inserted, err = b.store.Insert(ctx, deliveries)
	}
	b.onFlush(len(deliveries), time.Since(began))
	b.trace(entries, len(deliveries), began, err)
	for _, e := range entries {
		if err != nil {
			e.done <- result{err: err}
		} else {
			n := len(e.deliveries)
			e.done <- result{inserted: inserted[:n:n]}
			inserted = inserted[n:]
		}
		b.finish(e)
	}
}

// finish lets go of an entry that has been written, or need not be.
func (b *batcher) finish(e *entry) {
	e.memory.release()
	b.held.Done()
}

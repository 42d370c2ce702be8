package ingress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// gate is a store whose inserts wait until they are let through.
type gate struct {
	open    chan struct{}
	entered chan int // rows of each insert, as it begins
	fail    error
}

func (g *gate) Insert(_ context.Context, deliveries []inbox.Delivery) ([]inbox.Inserted, error) {
	g.entered <- len(deliveries)
	<-g.open
	if g.fail != nil {
		return nil, g.fail
	}
	results := make([]inbox.Inserted, len(deliveries))
	for i := range results {
		results[i] = inbox.Inserted{ID: 1, Outcome: inbox.Stored}
	}
	return results, nil
}

func testBatcher(g *gate, change func(*Config)) *batcher {
	cfg := Config{BatchRows: 10, BatchBytes: 1000, QueueRows: 100, Flushers: 1, AnswerTimeout: time.Minute}
	if change != nil {
		change(&cfg)
	}
	return newBatcher(g, cfg, func(int, time.Duration) {}, nil)
}

func noMemory() *lease { return &lease{budget: &budget{}} }

func sized(n int) inbox.Delivery { return inbox.Delivery{Body: make([]byte, n)} }

// TestBatcherGroupsWhatWaits holds the one flusher busy, and sees what queued
// meanwhile go out in groups, capped by rows and by bytes.
func TestBatcherGroupsWhatWaits(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), entered: make(chan int, 100)}
	b := testBatcher(g, nil)
	var results sync.WaitGroup
	var waiting []<-chan result
	results.Go(func() { // writes by itself, and so waits at the gate
		e, err := b.put(t.Context(), noMemory(), sized(1))
		if err != nil {
			t.Error(err)
			return
		}
		<-e.done
	})
	if rows := <-g.entered; rows != 1 {
		t.Fatalf("a delivery alone went out with %d", rows)
	}
	for n := range 25 {
		size := 1
		if n < 4 {
			size = 600 // two of them are over the bytes of a group
		}
		e, err := b.put(t.Context(), noMemory(), sized(size))
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, e.done)
	}
	close(g.open)
	for _, want := range []int{2, 2, 10, 10, 1} {
		if rows := <-g.entered; rows != want {
			t.Errorf("a group of %d, want %d", rows, want)
		}
	}
	for _, done := range waiting {
		if result := <-done; result.err != nil || len(result.inserted) != 1 || result.inserted[0].Outcome != inbox.Stored {
			t.Errorf("a result of %v", result)
		}
	}
	results.Wait()
	b.stop()
	if _, err := b.put(t.Context(), noMemory(), sized(1)); !errors.Is(err, errStopped) {
		t.Errorf("after its stop: %v", err)
	}
}

func TestBatcherRefusesWhenFull(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), entered: make(chan int, 100)}
	b := testBatcher(g, func(c *Config) { c.QueueRows = 3 })
	go func() { _, _ = b.put(t.Context(), noMemory(), sized(1)) }()
	<-g.entered
	for range 3 {
		if _, err := b.put(t.Context(), noMemory(), sized(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.put(t.Context(), noMemory(), sized(1)); !errors.Is(err, errQueueFull) {
		t.Errorf("got %v, want that the queue is full", err)
	}
	close(g.open)
	b.stop()
}

func TestBatcherTellsEveryoneOfAFailure(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), entered: make(chan int, 100), fail: fmt.Errorf("down: %w", inbox.ErrUnavailable)}
	close(g.open)
	b := testBatcher(g, nil)
	e, err := b.put(t.Context(), noMemory(), sized(1))
	if err != nil {
		t.Fatal(err)
	}
	if result := <-e.done; !errors.Is(result.err, inbox.ErrUnavailable) {
		t.Errorf("got %v", result)
	}
	if len(g.entered) != 2 {
		t.Errorf("the group was tried %d times, want twice", len(g.entered))
	}
	b.stop()
}

// TestBatcherLeavesNothingLying puts from many goroutines at once and counts
// the results.
func TestBatcherLeavesNothingLying(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), entered: make(chan int, 100_000)}
	close(g.open)
	b := testBatcher(g, func(c *Config) { c.Flushers, c.QueueRows = 3, 10_000 })
	var senders sync.WaitGroup
	for range 50 {
		senders.Go(func() {
			for range 200 {
				e, err := b.put(t.Context(), noMemory(), sized(1))
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-e.done:
				case <-time.After(20 * time.Second):
					t.Error("a delivery was left lying")
					return
				}
			}
		})
	}
	senders.Wait()
	b.stop()
}

// TestAnAbandonedDeliveryIsNotWritten gives up on one that waits, and sees its
// memory given back.
func TestAnAbandonedDeliveryIsNotWritten(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), entered: make(chan int, 100)}
	b := testBatcher(g, nil)
	go func() { _, _ = b.put(t.Context(), noMemory(), sized(1)) }()
	<-g.entered
	all := &budget{limit: 100}
	memory := &lease{budget: all}
	memory.grow(50)
	e, err := b.put(t.Context(), memory, sized(1))
	if err != nil {
		t.Fatal(err)
	}
	e.abandoned.Store(true)
	close(g.open)
	b.stop()
	if len(g.entered) != 0 {
		t.Error("it was written")
	}
	if used := all.used.Load(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

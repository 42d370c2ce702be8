// Package due keeps things that are to happen later: deliveries, and what comes
// next in the lives of tasks and messages.
package due

import (
	"container/heap"
	"context"
	"time"
)

// idle is the longest wait that a queue asks for.
const idle = time.Minute

// Queue is things by when they are due; those that are due at the same time
// come in the order in which they were added. The zero Queue is empty. It is not
// safe for concurrent use.
type Queue[T any] struct {
	items items[T]
	added int
}

// Add puts a thing in.
func (q *Queue[T]) Add(at time.Time, thing T) {
	q.added++
	heap.Push(&q.items, item[T]{at, q.added, thing})
}

// Take takes the next thing out if it is due. If not, it returns how long
// nothing will be, which is a minute at most.
func (q *Queue[T]) Take() (thing T, ok bool, wait time.Duration) {
	if len(q.items) == 0 {
		return thing, false, idle
	}
	if wait := time.Until(q.items[0].at); wait > 0 {
		return thing, false, min(wait, idle)
	}
	return heap.Pop(&q.items).(item[T]).thing, true, 0
}

// Loop calls step until ctx ends: whenever it is woken, and when the time is
// over for which step has said that nothing is due.
func Loop(ctx context.Context, wake <-chan struct{}, step func() time.Duration) {
	for {
		timer := time.NewTimer(step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

type item[T any] struct {
	at    time.Time
	n     int
	thing T
}

// items is a heap.
type items[T any] []item[T]

func (q items[T]) Len() int { return len(q) }
func (q items[T]) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].n < q[j].n
}
func (q items[T]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *items[T]) Push(x any)   { *q = append(*q, x.(item[T])) }
func (q *items[T]) Pop() any {
	last := len(*q) - 1
	taken := (*q)[last]
	(*q)[last] = item[T]{}
	*q = (*q)[:last]
	return taken
}

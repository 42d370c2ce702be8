package answerline

import (
	"container/heap"
	"context"
	"encoding/json"
	"time"
)

// The lifecycle's limits, before the time scale.
const (
	queueLimit = 4 * time.Hour   // from creation to first start
	runLimit   = 5 * time.Minute // from first start to finish
)

// stallCheck is how often a task that cannot start looks again.
const stallCheck = 100 * time.Millisecond

// Run moves tasks through their lives until ctx ends.
func (t *Tasks) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(t.advance())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-t.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// advance does all that is due and returns how long nothing will be.
func (t *Tasks) advance() time.Duration {
	for {
		ended, wait := t.advanceOne()
		switch {
		case ended != nil && ended.deliver:
			t.deliver(ended)
		case wait > 0:
			return wait
		}
	}
}

// advanceOne does one thing that is due. It returns the task that has become
// final by it, or else how long nothing will be due.
func (t *Tasks) advanceOne() (ended *task, wait time.Duration) {
	const idle = time.Minute
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = idle
	if len(t.kept) > 0 {
		until := time.Until(t.kept[0].ended.Add(t.scaled(t.cfg.Keep)))
		if until <= 0 {
			t.forgetOldest()
			return nil, 0
		}
		wait = min(wait, until)
	}
	if len(t.events) == 0 {
		return nil, wait
	}
	if until := time.Until(t.events[0].next); until > 0 {
		return nil, min(wait, until)
	}
	task := heap.Pop(&t.events).(*task)
	if task.gone.Load() || task.hold || task.Final() {
		return nil, 0
	}
	t.step(task)
	if task.Final() {
		return task, 0
	}
	return nil, 0
}

// step does what is due to one task.
func (t *Tasks) step(task *task) {
	switch {
	case task.late && task.started.IsZero():
		t.fail(task, queueWaitExceeded)
	case task.late:
		t.fail(task, runTimeExceeded)
	case task.Status == Queued && t.chances.Stalled:
		t.schedule(task, stallCheck)
	case task.Status == Queued:
		t.become(task, Processing)
		t.schedule(task, t.about(t.cfg.RunFor))
	case t.hit(t.chances.Requeue):
		t.become(task, Queued) // an engine was lost; this is not final
		t.schedule(task, t.about(t.cfg.QueueFor))
	case t.hit(t.chances.Fail):
		t.fail(task, engineError)
	default:
		t.finish(task, Completed)
	}
}

func (t *Tasks) fail(task *task, response string) {
	task.response = json.RawMessage(response)
	t.finish(task, Failed)
}

func (t *Tasks) hit(ratio float64) bool { return ratio > 0 && t.random.Float64() < ratio }

func (t *Tasks) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / t.cfg.TimeScale)
}

// about is a duration scaled and varied by half of it either way.
func (t *Tasks) about(d time.Duration) time.Duration {
	return time.Duration(float64(t.scaled(d)) * (.5 + t.random.Float64()))
}

func (t *Tasks) scheduleStart(task *task) { t.schedule(task, t.about(t.cfg.QueueFor)) }

// schedule makes something happen to a task after a wait, or fails it at the
// limit of what it is in. Which of the two is settled now, so that a busy
// machine fails no task at a high time scale.
func (t *Tasks) schedule(task *task, wait time.Duration) {
	end := task.created.Add(t.scaled(queueLimit))
	if !task.started.IsZero() {
		end = task.started.Add(t.scaled(runLimit))
	}
	task.next = time.Now().Add(wait)
	if task.late = !task.next.Before(end); task.late {
		task.next = end
	}
	heap.Push(&t.events, task)
	t.signal()
}

func (t *Tasks) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// eventQueue is a heap of tasks by when something happens to them.
type eventQueue []*task

func (q eventQueue) Len() int           { return len(q) }
func (q eventQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q eventQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)        { *q = append(*q, x.(*task)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	task := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return task
}

package answerline

import (
	"container/heap"
	"context"
	"encoding/json"
	"time"
)

// Run moves tasks through their lives until ctx ends.
func (t *Tasks) Run(ctx context.Context) {
	for {
		wait := t.advance()
		timer := time.NewTimer(wait)
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
	const idle = time.Minute
	for {
		t.mu.Lock()
		if len(t.events) == 0 {
			t.mu.Unlock()
			return idle
		}
		if wait := t.events[0].next.Sub(t.now()); wait > 0 {
			t.mu.Unlock()
			return min(wait, idle)
		}
		task := heap.Pop(&t.events).(*Task)
		body := t.step(task)
		made := *task
		t.mu.Unlock()
		if body != nil {
			t.deliver(made, body)
		}
	}
}

var queueWaitExceeded = json.RawMessage(`{"error":{"code":"QUEUE_WAIT_EXCEEDED","message":"the task did not start within four hours"}}`)

// step does what is due to one task, and returns its body when it became final.
func (t *Tasks) step(task *Task) []byte {
	if t.byID[task.ID] != task {
		return nil // cancelled
	}
	age := time.Duration(float64(t.now().Sub(task.CreatedAt)) * t.cfg.TimeScale)
	switch {
	case task.body != nil:
		t.forget(task.ID) // no longer kept
	case task.Status == Queued && age > QueueLimit:
		return t.finish(task, Failed, queueWaitExceeded)
	case task.Status == Queued:
		task.Status = Processing
		t.schedule(task, min(t.scaled(t.cfg.RunFor), time.Duration(float64(RunLimit)/t.cfg.TimeScale)))
	case t.random.Float64() < t.requeue:
		task.Status = Queued // an engine was lost; this is not final
		t.schedule(task, t.scaled(t.cfg.QueueFor))
	case t.random.Float64() < t.cfg.FailRatio:
		return t.finish(task, Failed, nil)
	default:
		return t.finish(task, Completed, nil)
	}
	return nil
}

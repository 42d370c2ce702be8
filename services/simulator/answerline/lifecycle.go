package answerline

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/catchwater/catchwater/services/simulator/due"
)

// The lifecycle's limits, before the time scale.
const (
	queueLimit = 4 * time.Hour   // from creation to first start
	runLimit   = 5 * time.Minute // from first start to finish
)

// stallCheck is how often a task that cannot start looks again.
const stallCheck = 100 * time.Millisecond

// Run moves tasks through their lives until ctx ends.
func (t *Tasks) Run(ctx context.Context) { due.Loop(ctx, t.wake, t.advance) }

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
	t.mu.Lock()
	defer t.mu.Unlock()
	until := time.Duration(math.MaxInt64)
	if len(t.kept) > 0 {
		if until = time.Until(t.kept[0].ended.Add(t.scaled(t.cfg.Keep))); until <= 0 {
			t.forgetOldest()
			return nil, 0
		}
	}
	task, ok, wait := t.events.Take()
	if !ok {
		return nil, min(wait, until)
	}
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
	t.events.Add(task.next, task)
	t.signal()
}

func (t *Tasks) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

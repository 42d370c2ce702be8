package answerline

import (
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/due"
)

// Config says how tasks live.
type Config struct {
	TimeScale   float64       // how many times faster than real time
	QueueFor    time.Duration // a task's usual wait, before the time scale
	RunFor      time.Duration // a task's usual run, before the time scale
	Keep        time.Duration // how long a finished task is kept, before the time scale
	MaxTasks    int           // unfinished tasks admitted, and finished ones kept
	ResultBytes int           // about how big an answer is
	Seed        uint64
}

// Tasks is all of them. It is safe for concurrent use.
type Tasks struct {
	cfg     Config
	deliver func(delivery.Subject) (deliveryID string)
	prose   *prose
	wake    chan struct{}

	mu      sync.Mutex
	random  *mathrand.Rand
	chances Chances
	byID    map[string]*task
	byKey   map[string]*task
	events  due.Queue[*task]
	kept    []*task // the final ones, the oldest first
	counts  Counts
}

// NewTasks returns an empty set. deliver is called, without any lock, for each
// task that has become final and is to be delivered.
func NewTasks(cfg Config, deliver func(delivery.Subject) (deliveryID string)) *Tasks {
	t := &Tasks{cfg: cfg, deliver: deliver, prose: newProse(cfg.Seed), wake: make(chan struct{}, 1)}
	t.Reset()
	return t
}

// Reset forgets all tasks.
func (t *Tasks) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range t.byID {
		task.gone.Store(true)
	}
	t.random = mathrand.New(mathrand.NewPCG(t.cfg.Seed, 1))
	t.byID, t.byKey = make(map[string]*task), make(map[string]*task)
	t.chances, t.events, t.kept, t.counts = Chances{}, due.Queue[*task]{}, nil, Counts{}
}

// Chances are what may happen in a task's life. Ratios are from 0 to 1.
type Chances struct {
	Fail    float64 `json:"failRatio"`    // of runs that fail
	Requeue float64 `json:"requeueRatio"` // of runs that fall back to QUEUED
	Stalled bool    `json:"stallQueue"`   // nothing starts
}

// Chances returns the chances.
func (t *Tasks) Chances() Chances {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chances
}

// SetChances replaces the chances.
func (t *Tasks) SetChances(c Chances) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chances = c
}

// Counts are how many tasks there are now in the states that are not final, and
// how many have come to the others.
type Counts struct {
	Queued     int `json:"queued"`
	Processing int `json:"processing"`
	Completed  int `json:"completed"`
	Failed     int `json:"failed"`
	Cancelled  int `json:"cancelled"`    // removed while QUEUED
	Forgotten  int `json:"noLongerKept"` // of the final ones
}

// Counts returns the counts.
func (t *Tasks) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

func (c *Counts) add(status string, n int) {
	switch status {
	case Queued:
		c.Queued += n
	case Processing:
		c.Processing += n
	case Completed:
		c.Completed += n
	case Failed:
		c.Failed += n
	}
}

// What the set refuses.
var (
	ErrConflict = errors.New("a task with this idempotencyKey exists")
	ErrFull     = errors.New("too many tasks have not ended")
	ErrExists   = errors.New("a task with this id exists")
	ErrUnknown  = errors.New("there is no such task, or it is no longer kept")
	ErrFinal    = errors.New("the task has ended")
	ErrNotFinal = errors.New("the task has not ended")
	ErrStatus   = errors.New("not a status for this: use QUEUED, PROCESSING, COMPLETED or FAILED")
)

// Request is what a task is created with.
type Request struct {
	TaskType       string  `json:"taskType"`
	Priority       int     `json:"priority"`
	IdempotencyKey *string `json:"idempotencyKey"`
}

// Create queues a task, which then lives by itself.
func (t *Tasks) Create(r Request) (Task, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.IdempotencyKey != nil && t.byKey[*r.IdempotencyKey] != nil:
		return Task{}, ErrConflict
	case t.counts.Queued+t.counts.Processing >= t.cfg.MaxTasks:
		return Task{}, ErrFull
	}
	task := t.add(Task{TaskType: r.TaskType, Priority: r.Priority, IdempotencyKey: r.IdempotencyKey})
	task.deliver = true
	t.scheduleStart(task)
	return task.Task, nil
}

// createdAtLayout is how the API writes times.
const createdAtLayout = "2006-01-02T15:04:05.000Z"

// add makes a QUEUED task, and makes up what it was not told of it.
func (t *Tasks) add(told Task) *task {
	task := &task{Task: told, created: time.Now(), resultBytes: t.cfg.ResultBytes, prose: t.prose}
	if told.ID == "" {
		task.Task.ID = "task_" + strings.ToLower(rand.Text())
	}
	if told.TaskType == "" {
		task.TaskType = "answer"
	}
	task.Status, task.CreatedAt = Queued, task.created.UTC().Format(createdAtLayout)
	t.byID[task.Task.ID] = task
	if key := task.IdempotencyKey; key != nil && t.byKey[*key] == nil {
		t.byKey[*key] = task
	}
	t.counts.add(Queued, 1)
	return task
}

// become moves a task to a status, and the counts with it.
func (t *Tasks) become(task *task, status string) {
	t.counts.add(task.Status, -1)
	t.counts.add(status, 1)
	task.Status = status
	if status == Processing && task.started.IsZero() {
		task.started = time.Now()
	}
}

// finish makes a task final. The caller hands it over without the lock.
func (t *Tasks) finish(task *task, status string) {
	t.become(task, status)
	task.ended = time.Now()
	t.kept = append(t.kept, task)
	if len(t.kept) > t.cfg.MaxTasks {
		t.forgetOldest()
	}
	t.signal()
}

func (t *Tasks) forgetOldest() {
	t.forget(t.kept[0])
	t.kept[0] = nil
	t.kept = t.kept[1:]
	t.counts.Forgotten++
}

func (t *Tasks) forget(task *task) {
	task.gone.Store(true)
	delete(t.byID, task.Task.ID)
	if key := task.IdempotencyKey; key != nil && t.byKey[*key] == task {
		delete(t.byKey, *key)
	}
}

// Show returns a task as the API shows it, or ErrUnknown.
func (t *Tasks) Show(id string) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task := t.byID[id]
	if task == nil {
		return nil, ErrUnknown
	}
	return task.Body(), nil
}

// CancelQueued removes the tasks that have not started, and says how many.
func (t *Tasks) CancelQueued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	removed := 0
	for _, task := range t.byID {
		if task.Status == Queued {
			t.forget(task)
			removed++
		}
	}
	t.counts.Queued -= removed
	t.counts.Cancelled += removed
	return removed
}

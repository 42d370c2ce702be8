// Package answerline is a stand-in for the Answerline provider: its tasks, as
// its API shows them and as its deliveries carry them.
package answerline

import (
	"container/heap"
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"
)

// The statuses of a task. Only the last two are final.
const (
	Queued     = "QUEUED"
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// The lifecycle's limits, before the time scale.
const (
	QueueLimit = 4 * time.Hour   // from creation to start; past it QUEUE_WAIT_EXCEEDED
	RunLimit   = 5 * time.Minute // from first start to finish
)

// Task is what the provider knows of a task.
type Task struct {
	ID             string    `json:"id"`
	TaskType       string    `json:"taskType"`
	Status         string    `json:"status"`
	Priority       int       `json:"priority"`
	CreatedAt      time.Time `json:"createdAt"`
	IdempotencyKey *string   `json:"idempotencyKey"`

	prompt   json.RawMessage
	body     []byte // the final answer, the same bytes wherever it is shown
	finished time.Time
	next     time.Time // when something happens to it
	hold     bool      // a test decides when it ends
	deliver  bool
}

// Config says how tasks live.
type Config struct {
	TimeScale   float64       // how many times faster than real time
	QueueFor    time.Duration // a task's usual wait, before the time scale
	RunFor      time.Duration // a task's usual run, before the time scale
	Keep        time.Duration // how long a finished task is kept, before the time scale
	ResultBytes int           // about how big an answer is
	FailRatio   float64       // of tasks that fail
	Seed        uint64
}

// Tasks is all of them. It is safe for concurrent use.
type Tasks struct {
	onFinal func(taskID string, body []byte)
	now     func() time.Time

	mu      sync.Mutex
	cfg     Config
	random  *mathrand.Rand
	requeue float64 // the ratio of starts that fall back to QUEUED
	byID    map[string]*Task
	byKey   map[string]*Task
	events  eventQueue
	wake    chan struct{}
}

// NewTasks returns an empty set; onFinal is called for each task that becomes
// final and is to be delivered.
func NewTasks(cfg Config, onFinal func(taskID string, body []byte)) *Tasks {
	return &Tasks{
		onFinal: onFinal, now: time.Now, cfg: cfg, random: mathrand.New(mathrand.NewPCG(cfg.Seed, 1)),
		byID: make(map[string]*Task), byKey: make(map[string]*Task), wake: make(chan struct{}, 1),
	}
}

// ErrConflict says that the idempotency key has been used.
var ErrConflict = errors.New("a task with this idempotencyKey exists")

// Request is what a task is created with.
type Request struct {
	TaskType       string          `json:"taskType"`
	Priority       int             `json:"priority"`
	IdempotencyKey *string         `json:"idempotencyKey"`
	Payload        json.RawMessage `json:"payload"`
}

// Create queues a task.
func (t *Tasks) Create(r Request) (Task, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.IdempotencyKey != nil && t.byKey[*r.IdempotencyKey] != nil {
		return Task{}, ErrConflict
	}
	task := &Task{
		ID: newID(), TaskType: r.TaskType, Status: Queued, Priority: r.Priority, CreatedAt: t.now().UTC(),
		IdempotencyKey: r.IdempotencyKey, prompt: r.Payload, deliver: true,
	}
	t.add(task)
	t.schedule(task, t.scaled(t.cfg.QueueFor))
	return *task, nil
}

// Exact is a finished task of the caller's making, for tests.
type Exact struct {
	ID             string          `json:"id"`
	TaskType       string          `json:"taskType"`
	Status         string          `json:"status"`
	CreatedAt      *time.Time      `json:"createdAt"`
	IdempotencyKey *string         `json:"idempotencyKey"`
	Response       json.RawMessage `json:"response"` // a made-up one when absent
	// Hold leaves the task QUEUED until it is finished by hand; NoDelivery makes
	// a finished task that is never delivered.
	Hold       bool `json:"hold"`
	NoDelivery bool `json:"noDelivery"`
}

// Make adds a task of the caller's making.
func (t *Tasks) Make(x Exact) Task {
	t.mu.Lock()
	task := &Task{ID: x.ID, TaskType: x.TaskType, Status: Queued, CreatedAt: t.now().UTC(), IdempotencyKey: x.IdempotencyKey, hold: x.Hold, deliver: !x.NoDelivery}
	if task.ID == "" {
		task.ID = newID()
	}
	if task.TaskType == "" {
		task.TaskType = "answer"
	}
	if x.CreatedAt != nil {
		task.CreatedAt = *x.CreatedAt
	}
	t.add(task)
	if x.Hold {
		t.mu.Unlock()
		return *task
	}
	status := x.Status
	if status == "" {
		status = Completed
	}
	body := t.finish(task, status, x.Response)
	made := *task
	t.mu.Unlock()
	t.deliver(made, body)
	return made
}

// Finish ends a task by hand; it reports whether there was one to end.
func (t *Tasks) Finish(id, status string, response json.RawMessage) bool {
	t.mu.Lock()
	task := t.byID[id]
	if task == nil || task.body != nil {
		t.mu.Unlock()
		return false
	}
	body := t.finish(task, status, response)
	made := *task
	t.mu.Unlock()
	t.deliver(made, body)
	return true
}

func (t *Tasks) deliver(task Task, body []byte) {
	if task.deliver {
		t.onFinal(task.ID, body)
	}
}

func (t *Tasks) add(task *Task) {
	t.byID[task.ID] = task
	if task.IdempotencyKey != nil {
		t.byKey[*task.IdempotencyKey] = task
	}
}

func newID() string { return "task_" + strings.ToLower(rand.Text()) }

func (t *Tasks) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / t.cfg.TimeScale * (.5 + t.random.Float64()))
}

func (t *Tasks) schedule(task *Task, wait time.Duration) {
	task.next = t.now().Add(wait)
	heap.Push(&t.events, task)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// finish makes the final answer. The caller holds the lock and delivers after.
func (t *Tasks) finish(task *Task, status string, response json.RawMessage) []byte {
	task.Status, task.finished = status, t.now()
	charged := 0
	if status == Completed {
		charged = 3
	}
	if response == nil {
		response = t.madeUp(task, status)
	}
	task.body, _ = json.Marshal(document{ // of marshalable parts only
		Task: task, Credits: credits{3, charged}, Response: response,
	})
	t.schedule(task, time.Duration(float64(t.cfg.Keep)/t.cfg.TimeScale))
	return task.body
}

// document is what the API shows and what a delivery carries.
type document struct {
	Task     *Task           `json:"task"`
	Credits  credits         `json:"credits"`
	Response json.RawMessage `json:"response,omitempty"`
}

type credits struct {
	ToCharge int `json:"creditsToCharge"`
	Charged  int `json:"creditsCharged"`
}

func (t *Tasks) madeUp(task *Task, status string) json.RawMessage {
	if status == Failed {
		return json.RawMessage(`{"error":{"code":"ENGINE_ERROR","message":"the engine gave no answer"}}`)
	}
	words := []string{"water", "gathers", "on", "the", "slope", "and", "runs", "to", "the", "reservoir", "é", "ü", "水"}
	var text strings.Builder
	for text.Len() < t.cfg.ResultBytes {
		text.WriteString(words[t.random.IntN(len(words))])
		text.WriteByte(' ')
	}
	response, _ := json.Marshal(map[string]any{"result": map[string]any{
		"text": text.String(), "model": "engine-2", "sources": []map[string]any{{"position": 1, "url": "https://example.com/" + task.ID}},
	}})
	return response
}

// Show returns a task as the API shows it, and whether there is one.
func (t *Tasks) Show(id string) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task := t.byID[id]
	if task == nil {
		return nil, false
	}
	if task.body != nil {
		return task.body, true
	}
	body, _ := json.Marshal(document{Task: task, Credits: credits{3, 0}})
	return body, true
}

// Counts returns how many tasks are queued and how many running.
func (t *Tasks) Counts() (queued, processing int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range t.byID {
		switch task.Status {
		case Queued:
			queued++
		case Processing:
			processing++
		}
	}
	return queued, processing
}

// CancelQueued removes the tasks that have not started, and says how many.
func (t *Tasks) CancelQueued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	removed := 0
	for id, task := range t.byID {
		if task.Status == Queued {
			t.forget(id)
			removed++
		}
	}
	return removed
}

func (t *Tasks) forget(id string) {
	if task := t.byID[id]; task.IdempotencyKey != nil {
		delete(t.byKey, *task.IdempotencyKey)
	}
	delete(t.byID, id)
}

// SetRatios changes how many tasks fail, and how many fall back to QUEUED.
func (t *Tasks) SetRatios(fail, requeue float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cfg.FailRatio, t.requeue = fail, requeue
}

// eventQueue is a heap of tasks by when something happens to them.
type eventQueue []*Task

func (q eventQueue) Len() int           { return len(q) }
func (q eventQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q eventQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)        { *q = append(*q, x.(*Task)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	task := (*q)[last]
	*q = (*q)[:last]
	return task
}

package answerline

import (
	"encoding/json"
	"fmt"
)

// Exact is a task of the caller's making. What is not given is made up.
type Exact struct {
	ID             string          `json:"id"`
	TaskType       string          `json:"taskType"`
	Status         string          `json:"status"` // COMPLETED when not given
	Priority       int             `json:"priority"`
	CreatedAt      *string         `json:"createdAt"` // any text
	IdempotencyKey *string         `json:"idempotencyKey"`
	Response       json.RawMessage `json:"response"` // kept byte for byte
	ResultBytes    int             `json:"resultBytes"`
	// Body, or Text, is the whole body of the final task, whatever it says.
	Body []byte `json:"body"` // base64
	Text string `json:"text"`
	// Hold leaves the task QUEUED until it is moved or finished by hand, as any
	// task is that is made with a status that is not final.
	Hold       bool `json:"hold"`
	NoDelivery bool `json:"noDelivery"` // it is not delivered once it is final
}

// Made is a task and the delivery that was queued for it.
type Made struct {
	Task
	DeliveryID string `json:"deliveryId,omitempty"`
}

// Make adds a task of the caller's making. It may share its idempotency key.
func (t *Tasks) Make(x Exact) (Made, error) {
	status := x.Status
	switch {
	case status == "":
		status = Completed
	case !(Task{Status: status}).Final() && status != Queued && status != Processing:
		return Made{}, fmt.Errorf("%q is %w", status, ErrStatus)
	}
	t.mu.Lock()
	if t.byID[x.ID] != nil {
		t.mu.Unlock()
		return Made{}, ErrExists
	}
	task := t.add(Task{ID: x.ID, TaskType: x.TaskType, Priority: x.Priority, IdempotencyKey: x.IdempotencyKey})
	task.response, task.body, task.deliver = x.Response, x.Body, !x.NoDelivery
	if x.Text != "" {
		task.body = []byte(x.Text)
	}
	if x.CreatedAt != nil {
		task.CreatedAt = *x.CreatedAt
	}
	if x.ResultBytes > 0 {
		task.resultBytes = x.ResultBytes
	}
	switch {
	case x.Hold || status == Queued:
		task.hold = true
	case status == Processing:
		task.hold = true
		t.become(task, Processing)
	default:
		t.finish(task, status)
	}
	made := task.Task
	t.mu.Unlock()
	return Made{Task: made, DeliveryID: t.deliverFinal(task, made)}, nil
}

// Finish ends a task by hand, with a response or, when that is nil, a made-up
// one.
func (t *Tasks) Finish(id, status string, response json.RawMessage) (Made, error) {
	if !(Task{Status: status}).Final() {
		return Made{}, fmt.Errorf("%q is %w", status, ErrStatus)
	}
	t.mu.Lock()
	task, err := t.unfinished(id)
	if err != nil {
		t.mu.Unlock()
		return Made{}, err
	}
	if response != nil {
		task.response = response
	}
	t.finish(task, status)
	made := task.Task
	t.mu.Unlock()
	return Made{Task: made, DeliveryID: t.deliverFinal(task, made)}, nil
}

// Move puts a task by hand into a status that is not final, and holds it there.
func (t *Tasks) Move(id, status string) (Task, error) {
	if status != Queued && status != Processing {
		return Task{}, fmt.Errorf("%q is %w", status, ErrStatus)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	task, err := t.unfinished(id)
	if err != nil {
		return Task{}, err
	}
	task.hold = true
	t.become(task, status)
	return task.Task, nil
}

// Deliver queues one more delivery, with an id of its own, of a final task.
func (t *Tasks) Deliver(id string) (Made, error) {
	t.mu.Lock()
	task := t.byID[id]
	final := task != nil && task.Final()
	t.mu.Unlock()
	switch {
	case task == nil:
		return Made{}, ErrUnknown
	case !final:
		return Made{}, ErrNotFinal
	}
	return Made{Task: task.Task, DeliveryID: t.deliver(task)}, nil
}

// deliverFinal hands a task over when it is final and to be delivered. made is
// the task as it was under the lock.
func (t *Tasks) deliverFinal(task *task, made Task) string {
	if !made.Final() || !task.deliver {
		return ""
	}
	return t.deliver(task)
}

func (t *Tasks) unfinished(id string) (*task, error) {
	task := t.byID[id]
	switch {
	case task == nil:
		return nil, ErrUnknown
	case task.Final():
		return nil, ErrFinal
	}
	return task, nil
}

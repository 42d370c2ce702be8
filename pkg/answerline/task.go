package answerline

import "encoding/json"

// The statuses of a task. Completed and Failed are final, nothing else is: a
// task in Processing may go back to Queued.
const (
	Queued     = "QUEUED"
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// Create is what a task is created with.
type Create struct {
	TaskType string `json:"taskType"`
	Priority int    `json:"priority,omitempty"`
	// IdempotencyKey makes creating safe to repeat; its meaning is the job's
	// (prompt, market, day), so that a delivery says which job it answers.
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
}

// Task is a task as the API describes it.
type Task struct {
	ID             string `json:"id"`
	TaskType       string `json:"taskType"`
	Status         string `json:"status"`
	CreatedAt      string `json:"createdAt"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// Final reports whether the task's status will not change any more.
func (t Task) Final() bool { return t.Status == Completed || t.Status == Failed }

// Status is how many tasks have not ended.
type Status struct {
	QueuedTasks     int `json:"queuedTasks"`
	ProcessingTasks int `json:"processingTasks"`
}

// envelope is how a task stands in an answer.
type envelope struct {
	Task Task `json:"task"`
}

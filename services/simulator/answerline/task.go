package answerline

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"
)

// The statuses of a task. Only the last two are final.
const (
	Queued     = "QUEUED"
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// Task is what the provider says of a task.
type Task struct {
	ID             string  `json:"id"`
	TaskType       string  `json:"taskType"`
	Status         string  `json:"status"`
	Priority       int     `json:"priority"`
	CreatedAt      string  `json:"createdAt"` // a time, but for tests that say otherwise
	IdempotencyKey *string `json:"idempotencyKey"`
}

// Final reports whether the status will not change any more.
func (t Task) Final() bool { return t.Status == Completed || t.Status == Failed }

// task is a Task and its life. Once it is final, nothing in it changes but gone.
type task struct {
	Task
	response    json.RawMessage // given by hand, or an error; else the result is made up
	body        []byte          // given by hand: the whole of it
	resultBytes int
	prose       *prose

	created time.Time // on this machine's clock, whatever CreatedAt says
	started time.Time // first start; zero before
	ended   time.Time
	next    time.Time   // when something happens to it
	late    bool        // which is that it fails, past a limit
	hold    bool        // only a test moves it
	deliver bool        // once it is final
	gone    atomic.Bool // no longer kept
}

// ID, Kept and Body make a final task a delivery.Subject.
func (t *task) ID() string { return t.Task.ID }

// Kept reports whether the API still knows the task.
func (t *task) Kept() bool { return !t.gone.Load() }

// creditsToCharge is what a result costs; nothing else is charged.
const creditsToCharge = 3

// The responses of FAILED tasks. The reference names the first one's code; the
// others stand for what it does not tell.
const (
	queueWaitExceeded = `{"error":{"code":"QUEUE_WAIT_EXCEEDED","message":"the task did not start within four hours"}}`
	runTimeExceeded   = `{"error":{"code":"RUN_TIME_EXCEEDED","message":"the task did not finish within five minutes of its first start"}}`
	engineError       = `{"error":{"code":"ENGINE_ERROR","message":"the engine gave no answer"}}`
)

// Body is what the API shows and, once the task is final, what a delivery
// carries. Parts that were given by hand stand in it byte for byte, which
// encoding/json would compact and escape.
func (t *task) Body() []byte {
	if t.body != nil && t.Final() {
		return t.body
	}
	charged := 0
	if t.Status == Completed {
		charged = creditsToCharge
	}
	b := make([]byte, 0, 400+t.resultBytes+len(t.response))
	b = append(b, `{"task":{"id":`...)
	b = appendJSON(b, t.Task.ID)
	b = append(b, `,"taskType":`...)
	b = appendJSON(b, t.TaskType)
	b = append(b, `,"status":`...)
	b = appendJSON(b, t.Status)
	b = append(b, `,"priority":`...)
	b = strconv.AppendInt(b, int64(t.Priority), 10)
	b = append(b, `,"createdAt":`...)
	b = appendJSON(b, t.CreatedAt)
	b = append(b, `,"idempotencyKey":`...)
	b = appendJSON(b, t.IdempotencyKey)
	b = append(b, `},"credits":{"creditsToCharge":`...)
	b = strconv.AppendInt(b, creditsToCharge, 10)
	b = append(b, `,"creditsCharged":`...)
	b = strconv.AppendInt(b, int64(charged), 10)
	b = append(b, '}')
	if t.Final() {
		b = append(b, `,"response":`...)
		b = t.appendResponse(b)
	}
	return append(b, '}')
}

func (t *task) appendResponse(b []byte) []byte {
	switch {
	case t.response != nil:
		return append(b, t.response...)
	case t.Status == Failed:
		return append(b, engineError...)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.Task.ID))
	b = append(b, `{"result":{"text":"`...)
	b = t.prose.appendText(b, hash.Sum64(), t.resultBytes)
	b = append(b, `","model":"engine-2","sources":[{"position":1,"url":`...)
	b = appendJSON(b, "https://example.com/"+t.Task.ID)
	return append(b, `}]}}`...)
}

// appendJSON appends a string, or null for a nil *string.
func appendJSON(b []byte, v any) []byte {
	text, _ := json.Marshal(v) // of strings only: it cannot fail
	return append(b, text...)
}

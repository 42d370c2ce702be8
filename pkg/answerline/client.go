// Package answerline is a client for the Answerline provider's task API: what
// is needed to submit tasks, to ask for results, and to stop what has not
// started. It retries nothing by itself; its errors say what a retry could do.
package answerline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The statuses of a task. Completed and Failed are final, nothing else is: a
// task in Processing may go back to Queued.
const (
	Queued     = "QUEUED"
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// Client calls the API. Its fields are set before its first use.
type Client struct {
	BaseURL string // such as https://api.answerline.dev, without a trailing slash
	Key     string // the bearer key
	// Timeout bounds each call; 30 s when zero.
	Timeout time.Duration
	// MaxBody bounds what is read of an answer, in bytes; 32 MiB when zero.
	MaxBody int64
	// HTTP is used for calls; http.DefaultClient when nil.
	HTTP *http.Client
}

const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 32 << 20
)

// Error is an answer other than 2xx.
type Error struct {
	Status     int
	Code       string        // the API's own, such as RESOURCE_CONFLICT; may be empty
	Message    string        // the API's own; may be empty
	RetryAfter time.Duration // what the answer asks for; 0 when it does not
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the API answers %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// IsConflict reports whether err says that a task with the idempotency key
// exists: an earlier create succeeded, answered or not.
func IsConflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusConflict
}

// IsTemporary reports whether the same call may succeed later: no answer in
// time, 429, or 5xx.
func IsTemporary(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusTooManyRequests || e.Status >= 500
	}
	var urlError *url.Error
	return errors.As(err, &urlError) || errors.Is(err, context.DeadlineExceeded)
}

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

// CreateTask creates a task. An Error for which IsConflict holds says that a
// task with this key exists, whose id the API does not tell.
func (c *Client) CreateTask(ctx context.Context, create Create) (Task, error) {
	body, err := json.Marshal(create)
	if err != nil {
		return Task{}, fmt.Errorf("create a task: encode it: %w", err)
	}
	var answer struct {
		Task Task `json:"task"`
	}
	if err := c.call(ctx, http.MethodPost, "/v1/async/task", body, &answer); err != nil {
		return Task{}, fmt.Errorf("create a task: %w", err)
	}
	if answer.Task.ID == "" {
		return Task{}, errors.New("create a task: the API's answer has no task.id")
	}
	return answer.Task, nil
}

// GetTask asks for a task. It returns what the API says of it, and the answer's
// exact bytes: once the task is final, those that a delivery carries.
func (c *Client) GetTask(ctx context.Context, id string) (Task, []byte, error) {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodGet, "/v1/async/task/"+url.PathEscape(id), nil, &raw); err != nil {
		return Task{}, nil, fmt.Errorf("ask for task %q: %w", id, err)
	}
	var answer struct {
		Task Task `json:"task"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Task{}, nil, fmt.Errorf("ask for task %q: read the answer: %w", id, err)
	}
	return answer.Task, raw, nil
}

// Status is how many tasks have not ended.
type Status struct {
	QueuedTasks     int `json:"queuedTasks"`
	ProcessingTasks int `json:"processingTasks"`
}

// Status asks how many tasks have not ended.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	if err := c.call(ctx, http.MethodGet, "/v1/async/status", nil, &s); err != nil {
		return Status{}, fmt.Errorf("ask for the queue's status: %w", err)
	}
	return s, nil
}

// CancelQueued removes all tasks that have not started, which are never
// charged. Tasks that run or have ended are not touched.
func (c *Client) CancelQueued(ctx context.Context) error {
	if err := c.call(ctx, http.MethodDelete, "/v1/async/queue", nil, nil); err != nil {
		return fmt.Errorf("remove the queued tasks: %w", err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	timeout, most, client := c.Timeout, c.MaxBody, c.HTTP
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if most == 0 {
		most = defaultMaxBody
	}
	if client == nil {
		client = http.DefaultClient
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Key)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return &url.Error{Op: method, URL: path, Err: err}
	case int64(len(data)) > most:
		return fmt.Errorf("the answer has more than %d bytes", most)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return readError(response, data)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// maxMessage bounds what is kept of an error's message, in bytes.
const maxMessage = 200

func readError(response *http.Response, data []byte) *Error {
	e := &Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) == nil {
		e.Code, e.Message = cut(body.Error.Code), cut(body.Error.Message)
	}
	return e
}

func cut(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "")
	}
	return s
}

// maxRetryAfter keeps a provider's slip from stopping everything for days.
const maxRetryAfter = time.Hour

// retryAfter reads the header: seconds, or an HTTP date.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		wait = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// Package answerline is a client for the Answerline provider's task API: what
// is needed to submit tasks, to ask for results, and to stop what has not
// started. It retries nothing by itself; its errors say what a retry could do.
// Package submit builds on it to create tasks that are never lost track of.
package answerline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/catchwater/catchwater/pkg/httpapi"
)

// Client calls the API. Its fields are those of httpapi.Client.
type Client httpapi.Client

// CreateTask creates a task. An error for which IsConflict holds says that a
// task with this idempotency key exists, whose id the API does not tell. Any
// other error for which IsTemporary holds may have created the task as well.
func (c *Client) CreateTask(ctx context.Context, create Create) (Task, error) {
	body, err := json.Marshal(create)
	if err != nil {
		return Task{}, fmt.Errorf("create a task: encode it: %w", err)
	}
	var answer envelope
	if err := c.call(ctx, http.MethodPost, "/v1/async/task", body, &answer); err != nil {
		return Task{}, fmt.Errorf("create a task: %w", err)
	}
	if answer.Task.ID == "" {
		return Task{}, errors.New("create a task: the API's answer has no task.id")
	}
	return answer.Task, nil
}

// GetTask asks for a task. It returns what the API says of it, and the answer's
// exact bytes: once the task is final, those that a delivery carries. A task
// that is unknown, or no longer kept, is an error for which IsNotFound holds.
func (c *Client) GetTask(ctx context.Context, id string) (Task, []byte, error) {
	raw, err := c.send(ctx, http.MethodGet, "/v1/async/task/"+url.PathEscape(id), nil)
	if err != nil {
		return Task{}, nil, fmt.Errorf("ask for task %q: %w", id, err)
	}
	var answer envelope
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Task{}, nil, fmt.Errorf("ask for task %q: read the answer: %w", id, err)
	}
	return answer.Task, raw, nil
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
	if _, err := c.send(ctx, http.MethodDelete, "/v1/async/queue", nil); err != nil {
		return fmt.Errorf("remove the queued tasks: %w", err)
	}
	return nil
}

// call is send with the answer decoded.
func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	data, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return (*httpapi.Client)(c).Send(ctx, method, path, body)
}

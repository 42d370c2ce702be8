package answerline_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/answerline"
)

// serve returns a client of an API that is one handler.
func serve(t *testing.T, handler http.HandlerFunc) *answerline.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &answerline.Client{BaseURL: server.URL, Key: "secret-key", Timeout: 10 * time.Second}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, request, answer string
		call                  func(*answerline.Client) (any, error)
		want                  any
	}{
		{
			"create", `POST /v1/async/task application/json {"taskType":"answer","idempotencyKey":"k","payload":{"prompt":"x"}}`,
			`{"task":{"id":"t1","taskType":"answer","status":"QUEUED","createdAt":"2026-01-02T03:04:05Z","idempotencyKey":"k"}}`,
			func(c *answerline.Client) (any, error) {
				return c.CreateTask(t.Context(), answerline.Create{TaskType: "answer", IdempotencyKey: "k", Payload: []byte(`{"prompt":"x"}`)})
			},
			answerline.Task{ID: "t1", TaskType: "answer", Status: "QUEUED", CreatedAt: "2026-01-02T03:04:05Z", IdempotencyKey: "k"},
		},
		{
			"status", "GET /v1/async/status  ", `{"queuedTasks":3,"processingTasks":2}`,
			func(c *answerline.Client) (any, error) { return c.Status(t.Context()) },
			answerline.Status{QueuedTasks: 3, ProcessingTasks: 2},
		},
		{
			"cancel queued", "DELETE /v1/async/queue  ", "",
			func(c *answerline.Client) (any, error) { return nil, c.CancelQueued(t.Context()) }, nil,
		},
		{
			"an id that is not plain", "GET /v1/async/task/a%2Fb%3Fc  ", `{"task":{"id":"a/b?c","status":"FAILED"}}`,
			func(c *answerline.Client) (any, error) {
				task, _, err := c.GetTask(t.Context(), "a/b?c")
				return task, err
			},
			answerline.Task{ID: "a/b?c", Status: "FAILED"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got := r.Method + " " + r.URL.EscapedPath() + " " + r.Header.Get("Content-Type") + " " + string(body)
				if got != c.request {
					t.Errorf("asked %q, want %q", got, c.request)
				}
				if key := r.Header.Get("Authorization"); key != "Bearer secret-key" {
					t.Errorf("the key is %q", key)
				}
				_, _ = io.WriteString(w, c.answer)
			})
			got, err := c.call(client)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestGetTaskReturnsTheExactBytes(t *testing.T) {
	t.Parallel()
	const answer = " {\"task\": {\"id\":\"t1\",\"status\":\"COMPLETED\"},\t\"response\":{\"n\":1e2,\"n\":-0,\"s\":\"\\u0000 \xff\"}}\r\n\n"
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	task, raw, err := client.GetTask(t.Context(), "t1")
	if err != nil || string(raw) != answer {
		t.Errorf("got %q, %v", raw, err)
	}
	if task.ID != "t1" || !task.Final() {
		t.Errorf("the task is %+v", task)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	type kind struct{ conflict, notFound, temporary bool }
	for _, c := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		want   answerline.Error
		kind   kind
	}{
		{"the key is used", 409, "", `{"error":{"code":"RESOURCE_CONFLICT","message":"it exists"}}`, answerline.Error{Status: 409, Code: "RESOURCE_CONFLICT", Message: "it exists"}, kind{conflict: true}},
		{"a conflict without a body", 409, "", "", answerline.Error{Status: 409}, kind{conflict: true}},
		{"another conflict", 409, "", `{"code":"ACCOUNT_LOCKED"}`, answerline.Error{Status: 409, Code: "ACCOUNT_LOCKED"}, kind{}},
		{"unknown task", 404, "", `{"error":"no such task"}`, answerline.Error{Status: 404, Message: "no such task"}, kind{notFound: true}},
		{"too many", 429, "7", `{}`, answerline.Error{Status: 429, RetryAfter: 7 * time.Second}, kind{temporary: true}},
		{"a proxy's page", 502, "", "<html>\n", answerline.Error{Status: 502}, kind{temporary: true}},
		{"wrong key", 401, "", `{"code":"UNAUTHORIZED","message":"who are you?"}`, answerline.Error{Status: 401, Code: "UNAUTHORIZED", Message: "who are you?"}, kind{}},
		{"not what was meant", 400, "", `{"error":{"code":17,"message":["x"]},"message":"a\nb\u0000"}`, answerline.Error{Status: 400, Message: "a b "}, kind{}},
		{"a long story", 500, "", `{"message":"` + strings.Repeat("é", 500) + `"}`, answerline.Error{Status: 500, Message: strings.Repeat("é", 100)}, kind{temporary: true}},
		{"a redirect", 302, "", "", answerline.Error{Status: 302}, kind{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("the redirect was followed")
				}
				w.Header().Set("Location", "/elsewhere")
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, _, err := client.GetTask(t.Context(), "t1")
			var got *answerline.Error
			if !errors.As(err, &got) || *got != c.want {
				t.Errorf("got %v, want %v", err, &c.want)
			}
			if got := (kind{answerline.IsConflict(err), answerline.IsNotFound(err), answerline.IsTemporary(err)}); got != c.kind {
				t.Errorf("it is taken for %+v, want %+v", got, c.kind)
			}
			if strings.Contains(err.Error(), "secret-key") {
				t.Errorf("%q tells the key", err)
			}
		})
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	t.Run("none in time", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("{"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		client.Timeout = 50 * time.Millisecond
		_, _, err := client.GetTask(t.Context(), "t1")
		if !answerline.IsTemporary(err) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 50ms") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not to the end", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		})
		if _, _, err := client.GetTask(t.Context(), "t1"); !answerline.IsTemporary(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		client := &answerline.Client{BaseURL: "http://127.0.0.1:1"}
		if _, err := client.Status(t.Context()); !answerline.IsTemporary(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled by the caller", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		if _, err := client.Status(ctx); answerline.IsTemporary(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"task":{"id":"t1"}}`) })
		client.MaxBody = 20
		if _, _, err := client.GetTask(t.Context(), "t1"); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		client.MaxBody = 19
		_, _, err := client.GetTask(t.Context(), "t1")
		var tooLarge *answerline.TooLargeError
		if !errors.As(err, &tooLarge) || tooLarge.Limit != 19 || answerline.IsTemporary(err) {
			t.Errorf("over the limit: %v", err)
		}
	})
	t.Run("not JSON", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
		if _, err := client.Status(t.Context()); err == nil || answerline.IsTemporary(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a create without an id", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
		if _, err := client.CreateTask(t.Context(), answerline.Create{TaskType: "answer"}); err == nil {
			t.Error("no error")
		}
	})
}

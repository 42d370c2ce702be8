package answerline

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

// serve serves an API over tasks that do not move by themselves.
func serve(t *testing.T) (*Tasks, func(method, path, body string) (*http.Response, string)) {
	t.Helper()
	tasks, _ := newTestTasks(nil)
	api := NewAPI(tasks, "sim-key", 1)
	e := echo.New()
	api.Register(e)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return tasks, func(method, path, body string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer sim-key")
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		return response, string(data)
	}
}

func TestCreateShowStatusCancel(t *testing.T) {
	t.Parallel()
	tasks, call := serve(t)
	response, body := call("POST", "/v1/async/task", `{"taskType":"answer","priority":3,"idempotencyKey":"k1","payload":{"prompt":"why?"},"extra":1}`)
	var created struct {
		Task    map[string]any
		Credits map[string]int
	}
	if err := json.Unmarshal([]byte(body), &created); err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("created: %s %s", response.Status, body)
	}
	id := created.Task["id"].(string)
	if created.Task["status"] != "QUEUED" || created.Task["priority"] != 3.0 || created.Task["idempotencyKey"] != "k1" || created.Task["taskType"] != "answer" || created.Credits["creditsToCharge"] != 3 {
		t.Errorf("created: %s", body)
	}
	if at, err := time.Parse(time.RFC3339, created.Task["createdAt"].(string)); err != nil || time.Since(at) > time.Minute {
		t.Errorf("created at %v: %v", created.Task["createdAt"], err)
	}

	response, body = call("POST", "/v1/async/task", `{"taskType":"answer","idempotencyKey":"k1"}`)
	if response.StatusCode != http.StatusConflict || !strings.Contains(body, `{"error":{"code":"RESOURCE_CONFLICT",`) || strings.Contains(body, id) {
		t.Errorf("the key again: %s %s", response.Status, body)
	}
	if _, body = call("GET", "/v1/async/task/"+id, ""); !strings.Contains(body, `"status":"QUEUED"`) || !strings.Contains(body, `"credits":`) || strings.Contains(body, "response") {
		t.Errorf("shown: %s", body)
	}
	if _, body = call("GET", "/v1/async/status", ""); strings.TrimSpace(body) != `{"processingTasks":0,"queuedTasks":1}` {
		t.Errorf("the status: %s", body)
	}
	if _, err := tasks.Make(Exact{Status: Processing}); err != nil {
		t.Fatal(err)
	}
	if response, body = call("DELETE", "/v1/async/queue", ""); response.StatusCode != http.StatusOK || strings.TrimSpace(body) != `{"removedTasks":1}` {
		t.Errorf("the queue's removal: %s %s", response.Status, body)
	}
	if _, body = call("GET", "/v1/async/status", ""); strings.TrimSpace(body) != `{"processingTasks":1,"queuedTasks":0}` {
		t.Errorf("the status: %s", body)
	}
	if response, body = call("GET", "/v1/async/task/"+id, ""); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "NOT_FOUND") {
		t.Errorf("a removed task: %s %s", response.Status, body)
	}
}

func TestInvalidCreates(t *testing.T) {
	t.Parallel()
	_, call := serve(t)
	for _, body := range []string{``, `{`, `{}`, `{"taskType":""}`, `{"taskType":"x","priority":"high"}`, `{"taskType":"x","idempotencyKey":""}`, `{"taskType":"x","idempotencyKey":5}`} {
		if response, answer := call("POST", "/v1/async/task", body); response.StatusCode != http.StatusBadRequest || !strings.Contains(answer, `"code":"VALIDATION_ERROR"`) {
			t.Errorf("%q is answered %s %s", body, response.Status, answer)
		}
	}
}

func TestIdsThatNeedEscaping(t *testing.T) {
	t.Parallel()
	tasks, call := serve(t)
	for id, path := range map[string]string{"a b": "a%20b", "a/b": "a%2Fb", "50%": "50%25", "%2F": "%252F", "é": "%C3%A9"} {
		if _, err := tasks.Make(Exact{ID: id}); err != nil {
			t.Fatal(err)
		}
		if response, body := call("GET", "/v1/async/task/"+path, ""); response.StatusCode != http.StatusOK {
			t.Errorf("%q as %s: %s %s", id, path, response.Status, body)
		}
	}
}

func TestWithheldCreate(t *testing.T) {
	t.Parallel()
	tasks, _ := newTestTasks(nil)
	api := NewAPI(tasks, "k", 1)
	api.SetFaults(Faults{Faults: gate.Faults{WithholdCreates: 1}})
	e := echo.New()
	api.Register(e)
	server := httptest.NewServer(e)
	defer server.Close()
	post := func(timeout time.Duration) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/async/task", strings.NewReader(`{"taskType":"x","idempotencyKey":"k"}`))
		request.Header.Set("Authorization", "Bearer k")
		response, err := server.Client().Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if code, err := post(100 * time.Millisecond); err == nil {
		t.Errorf("a withheld create is answered %d", code)
	}
	if tasks.Counts().Queued != 1 {
		t.Error("a withheld create has made no task")
	}
	if code, err := post(time.Minute); err != nil || code != http.StatusConflict {
		t.Errorf("the retry is answered %d, %v; want 409", code, err)
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	for _, f := range []Faults{{Chances: Chances{Fail: 1.1}}, {Chances: Chances{Requeue: -1}}, {Faults: gate.Faults{TooMany: -1}}} {
		if f.Validate() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

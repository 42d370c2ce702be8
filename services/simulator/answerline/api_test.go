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
)

// serve serves an API over tasks that do not move by themselves.
func serve(t *testing.T) (*API, *Tasks, func(method, path, body string) (*http.Response, string)) {
	t.Helper()
	tasks, _ := newTestTasks(nil)
	api := NewAPI(tasks, "sim-key", 1)
	e := echo.New()
	api.Register(e)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return api, tasks, func(method, path, body string) (*http.Response, string) {
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
	_, tasks, call := serve(t)
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
	_, _, call := serve(t)
	for _, body := range []string{``, `{`, `{}`, `{"taskType":""}`, `{"taskType":"x","priority":"high"}`, `{"taskType":"x","idempotencyKey":""}`, `{"taskType":"x","idempotencyKey":5}`} {
		if response, answer := call("POST", "/v1/async/task", body); response.StatusCode != http.StatusBadRequest || !strings.Contains(answer, `"code":"VALIDATION_ERROR"`) {
			t.Errorf("%q is answered %s %s", body, response.Status, answer)
		}
	}
}

func TestIdsThatNeedEscaping(t *testing.T) {
	t.Parallel()
	_, tasks, call := serve(t)
	for id, path := range map[string]string{"a b": "a%20b", "a/b": "a%2Fb", "50%": "50%25", "%2F": "%252F", "é": "%C3%A9"} {
		if _, err := tasks.Make(Exact{ID: id}); err != nil {
			t.Fatal(err)
		}
		if response, body := call("GET", "/v1/async/task/"+path, ""); response.StatusCode != http.StatusOK {
			t.Errorf("%q as %s: %s %s", id, path, response.Status, body)
		}
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	api := NewAPI(nil, "sim-key", 1)
	e := echo.New()
	api.Register(e)
	for _, header := range []string{"", "sim-key", "Bearer", "Bearer ", "Bearer other", "bearer sim-key", "Bearer sim-key "} {
		request := httptest.NewRequest(http.MethodGet, "/v1/async/status", nil)
		request.Header.Set("Authorization", header)
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, request)
		if answer.Code != http.StatusUnauthorized || !strings.Contains(answer.Body.String(), `{"error":{"code":"UNAUTHORIZED"`) {
			t.Errorf("%q is answered %d %s", header, answer.Code, answer.Body)
		}
	}
}

func TestAPIFaults(t *testing.T) {
	t.Parallel()
	api, _, call := serve(t)
	get := func() (int, string) {
		response, _ := call("GET", "/v1/async/status", "")
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	api.SetFaults(Faults{TooMany: 2, RetryAfter: 7, ServerErrors: 1})
	for n, want := range []int{429, 429, 500, 200} {
		code, retry := get()
		if code != want || code == 429 && retry != "7" {
			t.Errorf("answer %d is %d, Retry-After %q; want %d", n, code, retry, want)
		}
	}
	if f := api.Faults(); f.TooMany != 0 || f.ServerErrors != 0 || f.RetryAfter != 7 {
		t.Errorf("what is left of the faults: %+v", f)
	}
	api.SetFaults(Faults{TooManySeconds: 3600, RetryAfter: 1})
	for range 5 {
		if code, _ := get(); code != 429 {
			t.Errorf("while all are refused the answer is %d", code)
		}
	}
	api.SetFaults(Faults{ServerErrorRatio: 1})
	if code, _ := get(); code != 500 {
		t.Errorf("with all answers broken: %d", code)
	}
	api.SetFaults(Faults{SlowMs: 50})
	began := time.Now()
	if code, _ := get(); code != 200 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("a slow answer is %d after %s", code, time.Since(began))
	}
	if c := api.Counts(); c["too_many_requests"] != 7 || c["server_error"] != 2 || c["status"] != 2 {
		t.Errorf("the counts are %v", c)
	}
}

func TestWithheldCreate(t *testing.T) {
	t.Parallel()
	tasks, _ := newTestTasks(nil)
	api := NewAPI(tasks, "k", 1)
	api.SetFaults(Faults{WithholdCreates: 1})
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
	for _, f := range []Faults{{FailRatio: 1.1}, {RequeueRatio: -1}, {ServerErrorRatio: 2}, {TooMany: -1}, {SlowMs: -1}, {WithholdCreates: -1}} {
		if f.Validate() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

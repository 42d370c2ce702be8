package koltrix

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

// serve serves an API over messages that do not move by themselves.
func serve(t *testing.T) (*API, func(ctx context.Context, key, method, path, body string) (*http.Response, string, error)) {
	t.Helper()
	messages, _ := newTestMessages(func(c *Config) { c.MaxMessages = 2 })
	api := NewAPI(messages, "key", 1)
	e := echo.New()
	api.Register(e)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return api, func(ctx context.Context, key, method, path, body string) (*http.Response, string, error) {
		request, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := server.Client().Do(request)
		if err != nil {
			return nil, "", err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		return response, strings.TrimSpace(string(data)), err
	}
}

func TestAPI(t *testing.T) {
	t.Parallel()
	api, call := serve(t)
	ask := func(want int, method, path, body string) string {
		t.Helper()
		response, answer, err := call(t.Context(), "key", method, path, body)
		if err != nil || response.StatusCode != want {
			t.Fatalf("%s %s %s: %v %v %s, want %d", method, path, body, err, response, answer, want)
		}
		return answer
	}
	var created Message
	answer := ask(201, "POST", "/v1/messages", `{"to":"r@example.com","from":"a@sender.example","subject":"News","category":"weekly","html":"<p>"}`)
	if err := json.Unmarshal([]byte(answer), &created); err != nil || created.ID == "" || created.Status != "queued" || created.Category != "weekly" {
		t.Fatalf("created %s: %v", answer, err)
	}
	if shown := ask(200, "GET", "/v1/messages/"+created.ID, ""); shown != answer {
		t.Errorf("shown %s, created %s", shown, answer)
	}
	if _, err := api.messages.Emit(created.ID, Step{Event: "bounced", To: "r@example.com", Timestamp: 1700000000}); err != nil {
		t.Fatal(err)
	}
	want := `{"message_id":"` + created.ID + `","status":"bounced","timestamp":1700000000,"to":"r@example.com","from":"a@sender.example","subject":"News","category":"weekly"}`
	if shown := ask(200, "GET", "/v1/messages/"+created.ID, ""); shown != want {
		t.Errorf("shown %s, want %s", shown, want)
	}
	if answer := ask(404, "GET", "/v1/messages/msg_0", ""); !strings.Contains(answer, `"code":"NOT_FOUND"`) {
		t.Errorf("an unknown one: %s", answer)
	}
	for _, body := range []string{``, `{`, `{}`, `{"to":"","from":"a","subject":"s"}`, `{"to":[],"from":"a","subject":"s"}`, `{"to":["a",""],"from":"a","subject":"s"}`, `{"to":5,"from":"a","subject":"s"}`, `{"to":null,"from":"a","subject":"s"}`, `{"to":"a","subject":"s"}`, `{"to":"a","from":"a"}`} {
		if answer := ask(400, "POST", "/v1/messages", body); !strings.Contains(answer, `"code":"VALIDATION_ERROR"`) {
			t.Errorf("%s is answered %s", body, answer)
		}
	}
	if answer := ask(201, "POST", "/v1/messages", `{"to":["a","b"],"from":"a","subject":"s"}`); !strings.Contains(answer, `"to":"a"`) {
		t.Errorf("to several: %s", answer)
	}
	ask(429, "POST", "/v1/messages", `{"to":"a","from":"a","subject":"s"}`) // two are under way
	api.SetFaults(gate.Faults{TooMany: 1, ServerErrors: 1})
	ask(429, "GET", "/v1/messages/"+created.ID, "")
	ask(500, "GET", "/v1/messages/"+created.ID, "")
	ask(200, "GET", "/v1/messages/"+created.ID, "")
	for _, path := range []string{"/v1/messages", "/v1/messages/" + created.ID} {
		method := map[bool]string{true: "POST", false: "GET"}[path == "/v1/messages"]
		if response, answer, err := call(t.Context(), "other", method, path, "{}"); err != nil || response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with another key: %v %s", path, err, answer)
		}
	}
	if c := api.Counts(); c["create"] != 13 || c["not_found"] != 1 || c["too_many_requests"] != 2 || c["unauthorized"] != 2 {
		t.Errorf("the counts are %v", c)
	}
}

// TestWithheldCreate: a message may be sent whose sender never learns its id.
func TestWithheldCreate(t *testing.T) {
	t.Parallel()
	api, call := serve(t)
	api.SetFaults(gate.Faults{WithholdCreates: 1})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _, err := call(ctx, "key", "POST", "/v1/messages", `{"to":"a","from":"a","subject":"s"}`)
		ended <- err
	}()
	for api.Counts()["withheld_create"] == 0 {
		select {
		case err := <-ended:
			t.Fatalf("a withheld create is answered, %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a withheld create is answered")
	}
	if api.messages.Counts().Living != 1 {
		t.Error("a withheld create has made no message")
	}
}

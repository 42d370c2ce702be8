package answerline_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/catchwater/catchwater/pkg/answerline"
)

// Ask for one task. Only a final status says anything for good.
func ExampleClient_GetTask() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"task":{"id":"task_1","status":"COMPLETED"},"response":{"result":"42"}}`)
	}))
	defer api.Close()

	client := &answerline.Client{BaseURL: api.URL, Key: "the API key", Timeout: 10 * time.Second}
	task, body, err := client.GetTask(context.Background(), "task_1")
	switch {
	case answerline.IsNotFound(err):
		fmt.Println("unknown, or no longer kept")
	case answerline.IsTemporary(err):
		fmt.Println("ask again later:", err)
	case err != nil:
		fmt.Println(err)
	case task.Final():
		fmt.Printf("%s is %s: %s\n", task.ID, task.Status, body)
	default:
		fmt.Println("not yet")
	}
	// Output:
	// task_1 is COMPLETED: {"task":{"id":"task_1","status":"COMPLETED"},"response":{"result":"42"}}
}

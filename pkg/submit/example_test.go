package submit_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/submit"
)

// Submit a task from a program of your own. The idempotency key says what the
// job is; the row of its result, in answers, will say the same.
func Example() {
	databaseURL, apiURL, stop := demonstration()
	defer stop()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	submitter := &submit.Submitter{
		DB: pool, Source: "answers",
		Creator: &answerline.Client{BaseURL: apiURL, Key: "the API key"},
	}
	task := answerline.Create{
		TaskType:       "answer",
		IdempotencyKey: "best-running-shoes/us/2026-03-01",
		Payload:        []byte(`{"prompt":"Which running shoes are best?"}`),
	}
	for range 2 { // the second time changes nothing
		result, err := submitter.Submit(ctx, task)
		switch {
		case err != nil:
			fmt.Println("submit it again later:", err)
		case result.Pending:
			fmt.Println("created; the delivery will tell the id")
		case result.Existing:
			fmt.Println("had been created as", result.TaskID)
		default:
			fmt.Println("created as", result.TaskID)
		}
	}
	// Output:
	// created as task_1
	// had been created as task_1
}

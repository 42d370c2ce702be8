// Command handlers is a processor with functions of its own, for effects that the
// sources file gives the handlers "ledger" and "greet" (docs/effects.md). It takes
// the settings of the processor, whose place it takes.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/processor"
)

func main() {
	app := greeter{url: os.Getenv("GREETINGS_URL")}
	service.Main("handlers", "A processor that keeps a ledger and greets.", processor.Config{Handlers: effects.Handlers{
		InTransaction: map[string]func(context.Context, pgx.Tx, effects.Event) error{"ledger": keepLedger},
		AfterCommit:   map[string]func(context.Context, effects.Event, string) error{"greet": app.greet},
	}}, processor.Run)
}

// keepLedger writes a line that is committed with the event, or not at all. The
// table is this program's own: create table ledger (subject text, status text);
// grant insert on ledger to catchwater_processor.
func keepLedger(ctx context.Context, tx pgx.Tx, e effects.Event) error {
	_, err := tx.Exec(ctx, "insert into ledger (subject, status) values ($1, $2)", e.Subject, e.Change.Status)
	return err
}

// greeter tells another service of events.
type greeter struct{ url string }

// greet is called again until it returns nil, and once more after a crash, always
// with the same key.
func (g greeter) greet(ctx context.Context, e effects.Event, idempotencyKey string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader("hello "+e.Subject))
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", idempotencyKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the greeting is answered %s", response.Status)
	}
	return nil
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/source"
)

func TestAHandlersErrorFailsItsRowAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var nudged int
	run := func(ctx context.Context, tx pgx.Tx, e effects.Event) error {
		switch e.EventKey {
		case "answers-2-ok":
			return errors.New("not this one")
		case "answers-4-ok":
			_, _ = tx.Exec(ctx, "select 1/0") // and goes on
			return nil
		}
		_, err := tx.Exec(ctx, "insert into applied (key) values ($1)", "handled "+e.EventKey)
		return err
	}
	f.onEffects = func() { nudged++ }
	f.plan = effects.NewPlan([]*source.Source{{Name: "answers", Effects: []*source.Effect{
		{Name: "own", Handler: "own", Transaction: true}, {Name: "crm", Handler: "crm"},
	}}}, effects.Handlers{InTransaction: map[string]func(context.Context, pgx.Tx, effects.Event) error{"own": run}})
	ids := f.insert("answers", "ok", "ok", "ok", "fail", "ok", "ok")
	result, err := f.process(ids)
	if err != nil || result.effects != 3 || nudged != 1 {
		t.Fatalf("%d effects, nudged %d times, %v", result.effects, nudged, err)
	}
	if got, want := f.text(states), "processed 1, processed 1, pending 1, pending 1, pending 1, processed 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := f.text("select last_error from inbox where event_key = 'answers-2-ok'"); got != "handler own: not this one" {
		t.Errorf("the row says %q", got)
	}
	if got := f.text("select last_error from inbox where event_key = 'answers-4-ok'"); !strings.HasPrefix(got, "handler own: it went on after a statement had failed") {
		t.Errorf("the row of a handler that hides an error says %q", got)
	}
	if got, want := f.text("select string_agg(key, ', ' order by key) from applied"),
		"answers-0-ok, answers-1-ok, answers-5-ok, handled answers-0-ok, handled answers-1-ok, handled answers-5-ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := f.text("select string_agg(event_key, ', ' order by event_key) from effects"), "answers-0-ok, answers-1-ok, answers-5-ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAHandlerThatIsNotRegisteredStopsTheStart(t *testing.T) {
	t.Parallel()
	for transaction, field := range map[bool]string{true: "InTransaction", false: "AfterCommit"} {
		sources := []*source.Source{{Name: "mail", Effects: []*source.Effect{{Name: "crm", Handler: "own", Transaction: transaction}}}}
		err := (effects.Handlers{}).Check(sources)
		if want := fmt.Sprintf("handler \"own\" is not in this program: register it in processor.Config.Handlers.%s", field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAHandlerThatSpoilsTheTransactionFailsItsRowAlone has handlers that do to
// the batch's transaction what is not theirs to do.
func TestAHandlerThatSpoilsTheTransactionFailsItsRowAlone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"commits":    func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"rolls back": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"cancels its query": func(ctx context.Context, tx pgx.Tx) error { // which costs the connection
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := tx.Exec(ctx, "select pg_sleep(60)")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.plan = effects.NewPlan([]*source.Source{{Name: "answers", Effects: []*source.Effect{{Name: "own", Handler: "own", Transaction: true}}}},
				effects.Handlers{InTransaction: map[string]func(context.Context, pgx.Tx, effects.Event) error{
					"own": func(ctx context.Context, tx pgx.Tx, e effects.Event) error {
						if e.EventKey == "answers-1-ok" {
							return spoil(ctx, tx)
						}
						return nil
					},
				}})
			ids := f.insert("answers", "ok", "ok", "ok")
			if _, err := f.process(ids); err != nil {
				for _, id := range ids { // as batches are made smaller
					if _, err := f.process([]int64{id}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got, want := f.text(states), "processed 1, pending 1, processed 1"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := f.text("select last_error from inbox where state = 'pending'"); !strings.HasPrefix(got, "handler own: ") {
				t.Errorf("the row says %q", got)
			}
		})
	}
}

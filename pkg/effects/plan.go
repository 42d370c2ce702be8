package effects

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

//go:embed sql/write.sql
var writeSQL string

// Plan is which effects the events of each source have.
type Plan struct {
	effects  map[string][]*source.Effect // by source
	handlers Handlers
}

// NewPlan returns the plan of some sources. Handlers.Check has been passed.
func NewPlan(sources []*source.Source, handlers Handlers) *Plan {
	p := &Plan{effects: make(map[string][]*source.Effect), handlers: handlers}
	for _, s := range sources {
		if len(s.Effects) > 0 {
			p.effects[s.Name] = s.Effects
		}
	}
	return p
}

// HandlerError is a handler's failure within the transaction: about its own
// event, and no other.
type HandlerError struct {
	Handler string
	Err     error
}

func (e *HandlerError) Error() string { return fmt.Sprintf("handler %s: %v", e.Handler, e.Err) }
func (e *HandlerError) Unwrap() error { return e.Err }

// Write does what belongs into the transaction that applied rows: it runs the
// handlers within it, and writes down the effects that are to be performed when it
// is committed, in one statement. It returns how many those are. A HandlerError
// is about one row.
func (p *Plan) Write(ctx context.Context, tx pgx.Tx, rows []inbox.Row, applied projection.Result) (int, error) {
	var in columns
	for _, row := range rows {
		effects := p.effects[row.Source]
		if _, waits := applied.Waiting[row.ID]; waits || len(effects) == 0 || applied.Failed[row.ID] != nil {
			continue
		}
		change := Change(applied.Changes[row.ID])
		for _, e := range effects {
			if !e.Matches(row.EventType, change.Status, change.Changed) {
				continue
			}
			if e.Transaction {
				if err := p.handle(ctx, tx, e.Handler, eventOf(row, change)); err != nil {
					return 0, err
				}
				continue
			}
			if err := in.add(row, e, change); err != nil {
				return 0, err
			}
		}
	}
	if len(in.source) == 0 {
		return 0, nil
	}
	if _, err := tx.Exec(ctx, writeSQL, in.source, in.eventKey, in.name, in.inboxID, in.receivedAt, in.change, in.traceparent); err != nil {
		return 0, fmt.Errorf("write %d effects: %w", len(in.source), err)
	}
	return len(in.source), nil
}

// errWentOn is a handler that hid an error: every statement after it would fail,
// and with them events that are in order.
var errWentOn = errors.New("it went on after a statement had failed: have it return the error, or try the statement under a savepoint (tx.Begin)")

// handle runs a handler within the transaction.
func (p *Plan) handle(ctx context.Context, tx pgx.Tx, name string, e Event) error {
	err := p.handlers.InTransaction[name](ctx, borrowed{tx}, e)
	if err == nil && tx.Conn().PgConn().TxStatus() == txFailed {
		err = errWentOn
	}
	if err != nil {
		return &HandlerError{Handler: name, Err: err}
	}
	return nil
}

// borrowed is the transaction as a handler gets it: others' events are in it too.
type borrowed struct{ pgx.Tx }

var errBorrowed = errors.New("the transaction ends with the batch, and not in a handler: return an error to undo the event, or use a savepoint (tx.Begin)")

// Commit refuses.
func (borrowed) Commit(context.Context) error { return errBorrowed }

// Rollback refuses.
func (borrowed) Rollback(context.Context) error { return errBorrowed }

// txFailed is how the server reports a transaction that a failed statement has
// made unusable.
const txFailed = 'E'

func eventOf(row inbox.Row, change Change) Event {
	return Event{
		Source: row.Source, EventKey: row.EventKey, Type: row.EventType, Subject: row.Subject, OccurredAt: row.OccurredAt,
		ReceivedAt: row.ReceivedAt, Origin: row.Origin, Body: row.Body, Change: change,
	}
}

// columns holds effects the way unnest takes them.
type columns struct {
	source, eventKey, name []string
	inboxID                []int64
	receivedAt             []time.Time
	change, traceparent    []*string
}

func (c *columns) add(row inbox.Row, e *source.Effect, change Change) error {
	var text *string
	if change != (Change{}) {
		data, err := json.Marshal(change)
		if err != nil {
			return fmt.Errorf("encode what an event changed: %w", err)
		}
		text = orNull(string(data))
	}
	c.source = append(c.source, row.Source)
	c.eventKey = append(c.eventKey, row.EventKey)
	c.name = append(c.name, e.Name)
	c.inboxID = append(c.inboxID, row.ID)
	c.receivedAt = append(c.receivedAt, row.ReceivedAt)
	c.change = append(c.change, text)
	c.traceparent = append(c.traceparent, orNull(row.Traceparent))
	return nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

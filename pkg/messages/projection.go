package messages

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

var (
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/lock.sql
	lockSQL string
	//go:embed sql/record.sql
	recordSQL string
	//go:embed sql/update.sql
	updateSQL string
	//go:embed sql/suppress.sql
	suppressSQL string
)

// Projection applies inbox rows to the tables of this package.
type Projection struct {
	sources *source.Config
}

// NewProjection returns the projection of those sources that are of messages.
func NewProjection(sources *source.Config) Projection { return Projection{sources: sources} }

// Apply derives the messages' status from what the rows say, in a handful of
// statements whatever the number of rows. Rows about messages that are not
// registered wait; rows that say nothing usable fail for good.
func (p Projection) Apply(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (projection.Result, error) {
	result := projection.Result{
		Failed: make(map[int64]error), Waiting: make(map[int64]string), Changes: make(map[int64]projection.Change, len(rows)),
	}
	events := make([]event, 0, len(rows))
	for _, row := range rows {
		e, err := p.decode(row)
		if err != nil {
			result.Failed[row.ID] = &inbox.PermanentError{Err: err}
			continue
		}
		events = append(events, e)
	}
	// Those that come together are taken in the provider's order, for what each of
	// them changed.
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(a.occurredAt.Compare(b.occurredAt), cmp.Compare(a.inboxID, b.inboxID))
	})
	known, err := p.lock(ctx, tx, events)
	if err != nil {
		return projection.Result{}, err
	}
	events = slices.DeleteFunc(events, func(e event) bool {
		if known[e.message] == nil {
			result.Waiting[e.inboxID] = fmt.Sprintf("message %s to be registered", e.message.id)
		}
		return known[e.message] == nil
	})
	fresh, err := record(ctx, tx, events)
	if err != nil {
		return projection.Result{}, err
	}
	for _, e := range events {
		if fresh[e.inboxID] {
			result.Changes[e.inboxID] = known[e.message].apply(e)
		}
	}
	if err := update(ctx, tx, known); err != nil {
		return projection.Result{}, err
	}
	return result, suppress(ctx, tx, events)
}

// decode reads what a row says. Its errors are for good: the same bytes will
// never say anything else.
func (p Projection) decode(row inbox.Row) (event, error) {
	s := p.sources.Lookup(row.Source)
	switch {
	case s == nil || s.Messages == nil:
		return event{}, fmt.Errorf("source %q is not one of messages in this processor's configuration", row.Source)
	case row.Body == nil:
		return event{}, errors.New("the payload has been dropped")
	case row.Subject == "":
		return event{}, errors.New("the event does not say which message it is about (the source's subject)")
	case row.OccurredAt.IsZero():
		return event{}, errors.New("the event has no time that can be read (the source's occurred_at)")
	}
	content, err := row.Content()
	if err != nil {
		return event{}, err
	}
	e := event{
		inboxID: row.ID, eventKey: row.EventKey, message: key{row.Source, row.Subject}, eventType: row.EventType, occurredAt: row.OccurredAt,
	}
	e.recipient, e.category = s.Messages.Details(content, row.Origin == inbox.FromReconcile)
	e.status, _ = s.Messages.Status(row.EventType)
	return e, nil
}

// lock returns those of the events' messages that are registered, each locked
// until tx ends, in an order that is the same for everybody.
func (p Projection) lock(ctx context.Context, tx pgx.Tx, events []event) (map[key]*message, error) {
	var all, created columns
	known := make(map[key]*message)
	seen := make(map[key]bool)
	for _, e := range events {
		if seen[e.message] {
			continue
		}
		seen[e.message] = true
		all.add(e.message)
		if p.sources.Lookup(e.message.source).Messages.Create {
			created.add(e.message)
		}
	}
	if len(created.source) > 0 {
		if _, err := tx.Exec(ctx, createSQL, created.source, created.id); err != nil {
			return nil, fmt.Errorf("register %d messages that events are about: %w", len(created.source), err)
		}
	}
	if len(all.source) == 0 {
		return known, nil
	}
	rows, err := tx.Query(ctx, lockSQL, all.source, all.id)
	if err != nil {
		return nil, fmt.Errorf("lock %d messages: %w", len(all.source), err)
	}
	var k key
	var m message
	if _, err := pgx.ForEachRow(rows, []any{
		&k.source, &k.id, &m.status, &m.rank, &m.statusAt, &m.final, &m.opened, &m.firstOpenedAt, &m.clicked, &m.firstClickedAt,
	}, func() error {
		found := m
		known[k] = &found
		m = message{}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("lock %d messages: %w", len(all.source), err)
	}
	return known, nil
}

// columns names messages the way unnest takes them.
type columns struct{ source, id []string }

func (c *columns) add(k key) {
	c.source = append(c.source, k.source)
	c.id = append(c.id, k.id)
}

// record writes the events down, and returns which of them were not before: a
// row that is processed again by hand counts nothing twice.
func record(ctx context.Context, tx pgx.Tx, events []event) (map[int64]bool, error) {
	fresh := make(map[int64]bool, len(events))
	if len(events) == 0 {
		return fresh, nil
	}
	var ids []int64
	var of columns
	var types []string
	var recipients []*string
	var at []time.Time
	for _, e := range events {
		ids = append(ids, e.inboxID)
		of.add(e.message)
		types = append(types, e.eventType)
		recipients = append(recipients, orNull(e.recipient))
		at = append(at, e.occurredAt)
	}
	rows, err := tx.Query(ctx, recordSQL, ids, of.source, of.id, types, recipients, at)
	if err != nil {
		return nil, fmt.Errorf("record %d events: %w", len(events), err)
	}
	var id int64
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { fresh[id] = true; return nil }); err != nil {
		return nil, fmt.Errorf("record %d events: %w", len(events), err)
	}
	return fresh, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// update writes down the messages that events have touched.
func update(ctx context.Context, tx pgx.Tx, known map[key]*message) error {
	var of columns
	var statuses []string
	var ranks, opened, clicked []int
	var finals []bool
	var statusAt, firstOpenedAt, firstClickedAt []*time.Time
	for k, m := range known {
		if !m.touched {
			continue
		}
		of.add(k)
		statuses, ranks, finals = append(statuses, m.status), append(ranks, m.rank), append(finals, m.final)
		opened, clicked = append(opened, m.opened), append(clicked, m.clicked)
		statusAt = append(statusAt, m.statusAt)
		firstOpenedAt, firstClickedAt = append(firstOpenedAt, m.firstOpenedAt), append(firstClickedAt, m.firstClickedAt)
	}
	if len(of.source) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, updateSQL, of.source, of.id, statuses, ranks, statusAt, finals, opened, firstOpenedAt, clicked,
		firstClickedAt); err != nil {
		return fmt.Errorf("update %d messages: %w", len(of.source), err)
	}
	return nil
}

// suppress notes the recipients that are not to be written to again.
func suppress(ctx context.Context, tx pgx.Tx, events []event) error {
	type row struct{ source, recipient, reason, category string }
	first := make(map[row]event)
	var order []row
	for _, e := range events {
		if !e.status.Suppress || e.recipient == "" {
			continue
		}
		r := row{e.message.source, e.recipient, e.status.Name, ""}
		if e.status.Name == source.StatusUnsubscribed {
			r.category = e.category
		}
		before, seen := first[r]
		if !seen {
			order = append(order, r)
		}
		if !seen || cmp.Or(e.occurredAt.Compare(before.occurredAt), strings.Compare(e.eventKey, before.eventKey)) < 0 {
			first[r] = e
		}
	}
	if len(order) == 0 {
		return nil
	}
	var sources, recipients, reasons, categories, keys []string
	var at []time.Time
	var ids []int64
	for _, r := range order {
		e := first[r]
		sources, recipients = append(sources, r.source), append(recipients, r.recipient)
		reasons, categories = append(reasons, r.reason), append(categories, r.category)
		keys, at, ids = append(keys, e.eventKey), append(at, e.occurredAt), append(ids, e.inboxID)
	}
	if _, err := tx.Exec(ctx, suppressSQL, sources, recipients, reasons, categories, at, keys, ids); err != nil {
		return fmt.Errorf("note %d suppressions: %w", len(order), err)
	}
	return nil
}

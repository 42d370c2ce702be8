package effects

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/catchwater/catchwater/pkg/inbox"
)

var (
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/record.sql
	recordSQL string
	//go:embed sql/hand_back.sql
	handBackSQL string
	//go:embed sql/backlog.sql
	backlogSQL string
)

// DB is what the package needs of a pool, a connection or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Kind is an effect of one source, by name.
type Kind struct {
	Source, Name string
}

// Wanted says how many effects of a kind are to be claimed at most, and how long
// they belong to who claims them. Those due before Since are not looked at.
type Wanted struct {
	Kind
	Most  int
	Lease time.Duration
	Since time.Time
}

// Call is a claimed effect.
type Call struct {
	ID   int64
	Name string // the effect's
	Event
	Traceparent string
	Attempt     int // which this is, from 1
	// Repeated: a former attempt was begun, and its end was never recorded. It may
	// have been performed.
	Repeated bool
	// NoBody: the payload is gone.
	NoBody bool
}

// Key is the call's idempotency key.
func (c *Call) Key() string { return IdempotencyKey(c.Source, c.Name, c.EventKey) }

// Claim takes effects that are due, the longest due first of each kind. Those
// whose lease ran out under somebody who did not record them are left alone unless
// abandoned is true.
func Claim(ctx context.Context, db DB, wanted []Wanted, abandoned bool) ([]Call, error) {
	var sources, names []string
	var most []int
	var leases []time.Duration
	var since []time.Time
	for _, w := range wanted {
		sources, names = append(sources, w.Source), append(names, w.Name)
		most, leases, since = append(most, w.Most), append(leases, w.Lease), append(since, w.Since)
	}
	rows, err := db.Query(ctx, claimSQL, sources, names, most, leases, since, abandoned)
	if err != nil {
		return nil, fmt.Errorf("claim effects: %w", err)
	}
	calls, err := pgx.CollectRows(rows, readCall)
	if err != nil {
		return nil, fmt.Errorf("claim effects: %w", err)
	}
	return calls, nil
}

func readCall(row pgx.CollectableRow) (Call, error) {
	var c Call
	var change *Change
	var eventType, subject, traceparent *string
	var occurredAt *time.Time
	err := row.Scan(&c.ID, &c.Source, &c.EventKey, &c.Name, &c.ReceivedAt, &change, &traceparent, &c.Attempt, &c.Repeated,
		&eventType, &subject, &occurredAt, &c.Origin, &c.Body, &c.Headers)
	c.NoBody = c.Body == nil
	c.Type, c.Subject, c.Traceparent = orEmpty(eventType), orEmpty(subject), orEmpty(traceparent)
	if change != nil {
		c.Change = *change
	}
	if occurredAt != nil {
		c.OccurredAt = *occurredAt
	}
	return c, err
}

// State is what becomes of an effect.
type State string

// The states.
const (
	Pending   State = "pending"
	Performed State = "performed"
	GivenUp   State = "given_up"
)

// Result is what came of a call.
type Result struct {
	Call  *Call
	State State
	Err   error // nil when Performed
	// RetryIn is the wait until the next attempt, when Pending.
	RetryIn time.Duration
}

// Record writes down what came of calls, and returns the ids of those whose claim
// had been lost to somebody else meanwhile.
func Record(ctx context.Context, db DB, results []Result) (lost []int64, err error) {
	ids := make([]int64, 0, len(results))
	attempts := make([]int, 0, len(results))
	states := make([]string, 0, len(results))
	texts := make([]*string, 0, len(results))
	delays := make([]*time.Duration, 0, len(results))
	for _, r := range results {
		ids, attempts, states = append(ids, r.Call.ID), append(attempts, r.Call.Attempt), append(states, string(r.State))
		var text *string
		var delay *time.Duration
		if r.State != Performed {
			text = orNull(inbox.ErrorText(r.Err.Error()))
		}
		if r.State == Pending {
			delay = &r.RetryIn
		}
		texts, delays = append(texts, text), append(delays, delay)
	}
	rows, err := db.Query(ctx, recordSQL, ids, attempts, states, texts, delays)
	if err != nil {
		return nil, fmt.Errorf("record %d effects: %w", len(results), err)
	}
	ours := make(map[int64]bool, len(results))
	var id int64
	var our bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &our}, func() error { ours[id] = our; return nil }); err != nil {
		return nil, fmt.Errorf("record %d effects: %w", len(results), err)
	}
	for _, id := range ids {
		if !ours[id] {
			lost = append(lost, id)
		}
	}
	return lost, nil
}

// HandBack gives claims back that nothing was done under.
func HandBack(ctx context.Context, db DB, calls []Call) error {
	ids := make([]int64, 0, len(calls))
	attempts := make([]int, 0, len(calls))
	for i := range calls {
		ids, attempts = append(ids, calls[i].ID), append(attempts, calls[i].Attempt)
	}
	if _, err := db.Exec(ctx, handBackSQL, ids, attempts); err != nil {
		return fmt.Errorf("hand %d effects back: %w", len(calls), err)
	}
	return nil
}

// Backlog counts the effects of one kind in one state other than performed.
type Backlog struct {
	Source    string        `db:"source"`
	Name      string        `db:"name"`
	State     State         `db:"state"`
	Effects   int64         `db:"effects"`
	OldestAge time.Duration `db:"oldest_age"` // since its event was processed
}

// Backlogs returns what is not performed. Its cost grows with the number of such
// effects, not with the size of the table.
func Backlogs(ctx context.Context, db DB) ([]Backlog, error) {
	rows, err := db.Query(ctx, backlogSQL)
	if err != nil {
		return nil, fmt.Errorf("count the effects: %w", err)
	}
	backlogs, err := pgx.CollectRows(rows, pgx.RowToStructByName[Backlog])
	if err != nil {
		return nil, fmt.Errorf("count the effects: %w", err)
	}
	return backlogs, nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

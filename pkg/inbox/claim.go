package inbox

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/claim_ids.sql
	claimIDsSQL string
	//go:embed sql/claim_due.sql
	claimDueSQL string
	//go:embed sql/states.sql
	statesSQL string
	//go:embed sql/done.sql
	doneSQL string
	//go:embed sql/put_off.sql
	putOffSQL string
	//go:embed sql/fail.sql
	failSQL string
)

// Row is a claimed row.
type Row struct {
	ID          int64
	Source      string
	EventKey    string
	EventType   string
	Subject     string
	OccurredAt  time.Time // zero where the provider did not say
	ReceivedAt  time.Time
	Origin      Origin
	Traceparent string
	Attempts    int // made before this one
	// Body is nil when the payload is gone.
	Body []byte
}

// ClaimIDs locks the rows among ids that want processing and that nobody else
// holds, until tx ends. It returns them in the order of their ids.
func ClaimIDs(ctx context.Context, tx pgx.Tx, ids []int64) ([]Row, error) {
	rows, err := tx.Query(ctx, claimIDsSQL, ids)
	return collect(rows, err, "claim rows by id")
}

// ClaimDue locks up to limit rows that are due and that nobody else holds,
// until tx ends, the longest due first. Rows due before since are not looked
// at; rows that were never tried count as due already ahead of their time.
func ClaimDue(ctx context.Context, tx pgx.Tx, since time.Time, ahead time.Duration, limit int) ([]Row, error) {
	rows, err := tx.Query(ctx, claimDueSQL, since, ahead, limit)
	return collect(rows, err, "claim due rows")
}

func collect(rows pgx.Rows, err error, action string) ([]Row, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	claimed, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Row, error) {
		var row Row
		var eventType, subject, traceparent *string
		var occurredAt *time.Time
		err := r.Scan(&row.ID, &row.Source, &row.EventKey, &eventType, &subject, &occurredAt, &row.ReceivedAt, &row.Origin,
			&traceparent, &row.Attempts, &row.Body)
		row.EventType, row.Subject, row.Traceparent = orEmpty(eventType), orEmpty(subject), orEmpty(traceparent)
		if occurredAt != nil {
			row.OccurredAt = *occurredAt
		}
		return row, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return claimed, nil
}

// Claimable returns those among ids that want processing now. Asked of ids
// that a claim did not return, it names the rows that somebody else holds.
func Claimable(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]bool, error) {
	rows, err := tx.Query(ctx, statesSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("read the state of rows: %w", err)
	}
	claimable := make(map[int64]bool)
	var id int64
	var yes bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &yes}, func() error {
		if yes {
			claimable[id] = true
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the state of rows: %w", err)
	}
	return claimable, nil
}

// Done marks claimed rows as processed.
func Done(ctx context.Context, tx pgx.Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, doneSQL, ids); err != nil {
		return fmt.Errorf("mark %d rows processed: %w", len(ids), err)
	}
	return nil
}

// Wait is a claimed row that cannot be processed yet, through no fault of its
// own.
type Wait struct {
	ID  int64
	For string // what has to come first
	// Pending leaves the row among those that ought to be processed: what it waits
	// for is this side's to bring.
	Pending bool
}

// The limits of how long a waiting row is put off: as long again as it has
// waited, so that what comes moments after the event is soon seen.
const (
	leastWait = time.Second
	mostWait  = 10 * time.Minute
)

// PutOff puts claimed rows off until they are next looked at, and marks them as
// waiting. It is no attempt: a row may wait for ever.
func PutOff(ctx context.Context, tx pgx.Tx, waits []Wait) error {
	if len(waits) == 0 {
		return nil
	}
	ids := make([]int64, 0, len(waits))
	texts := make([]string, 0, len(waits))
	pending := make([]bool, 0, len(waits))
	for _, wait := range waits {
		ids, pending = append(ids, wait.ID), append(pending, wait.Pending)
		texts = append(texts, ErrorText("waits for "+wait.For))
	}
	if _, err := tx.Exec(ctx, putOffSQL, ids, texts, leastWait, mostWait, pending); err != nil {
		return fmt.Errorf("put off %d waiting rows: %w", len(waits), err)
	}
	return nil
}

// Failure is what went wrong with one claimed row.
type Failure struct {
	ID  int64
	Err error
	// RetryIn is the wait until the next attempt; Quarantine asks for none.
	RetryIn    time.Duration
	Quarantine bool
}

// Fail records failed attempts on claimed rows.
func Fail(ctx context.Context, tx pgx.Tx, failures []Failure) error {
	if len(failures) == 0 {
		return nil
	}
	ids := make([]int64, 0, len(failures))
	texts := make([]string, 0, len(failures))
	delays := make([]*time.Duration, 0, len(failures))
	for _, failure := range failures {
		ids = append(ids, failure.ID)
		texts = append(texts, ErrorText(failure.Err.Error()))
		delay := &failure.RetryIn
		if failure.Quarantine {
			delay = nil
		}
		delays = append(delays, delay)
	}
	if _, err := tx.Exec(ctx, failSQL, ids, texts, delays); err != nil {
		return fmt.Errorf("record %d failed rows: %w", len(failures), err)
	}
	return nil
}

// ErrorText is a text as a last_error column takes it: bounded, and text to
// Postgres.
func ErrorText(text string) string {
	const most = 1000
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

package inbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/body.sql
	bodySQL string
	//go:embed sql/backlog.sql
	backlogSQL string
	//go:embed sql/orphans.sql
	orphansSQL string
	//go:embed sql/retry.sql
	retrySQL string
)

// Entry is a row as an operator looks at it.
type Entry struct {
	ID            int64      `db:"id" json:"id"`
	Source        string     `db:"source" json:"source"`
	EventKey      string     `db:"event_key" json:"event_key"`
	EventType     *string    `db:"event_type" json:"event_type,omitempty"`
	Subject       *string    `db:"subject" json:"subject,omitempty"`
	OccurredAt    *time.Time `db:"occurred_at" json:"occurred_at,omitempty"`
	ReceivedAt    time.Time  `db:"received_at" json:"received_at"`
	Origin        string     `db:"origin" json:"origin"`
	State         string     `db:"state" json:"state"`
	Attempts      int        `db:"attempts" json:"attempts"`
	NextAttemptAt *time.Time `db:"next_attempt_at" json:"next_attempt_at,omitempty"`
	LastError     *string    `db:"last_error" json:"last_error,omitempty"`
	ProcessedAt   *time.Time `db:"processed_at" json:"processed_at,omitempty"`
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	State     string
	Source    string
	IDs       []int64
	OlderThan time.Duration // since its receipt
	Limit     int           // at least 1
}

// List returns the rows that the filter lets through, the newest first.
func List(ctx context.Context, db DB, filter Filter) ([]Entry, error) {
	rows, err := db.Query(ctx, listSQL, orNull(filter.State), orNull(filter.Source), filter.IDs, filter.OlderThan, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list inbox rows: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByName[Entry])
	if err != nil {
		return nil, fmt.Errorf("list inbox rows: %w", err)
	}
	return entries, nil
}

// ErrNoBody says that a row, or its payload, is not there (any more).
var ErrNoBody = errors.New("no such row, or its payload has been dropped")

// Body returns the raw bytes of a row, exactly as they were received.
func Body(ctx context.Context, db DB, id int64) ([]byte, error) {
	rows, err := db.Query(ctx, bodySQL, id)
	if err != nil {
		return nil, fmt.Errorf("read the body of row %d: %w", id, err)
	}
	body, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("read the body of row %d: %w", id, ErrNoBody)
	case err != nil:
		return nil, fmt.Errorf("read the body of row %d: %w", id, err)
	}
	return body, nil
}

// Retry makes quarantined rows due again, with all their attempts before them,
// and returns the ids of those that were in quarantine. Rows that were refused at
// their receipt stay there: see Refusals.
func Retry(ctx context.Context, db DB, ids []int64) ([]int64, error) {
	rows, err := db.Query(ctx, retrySQL, ids)
	if err != nil {
		return nil, fmt.Errorf("retry quarantined rows: %w", err)
	}
	retried, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("retry quarantined rows: %w", err)
	}
	return retried, nil
}

// Backlog counts the rows of one source in one state other than processed.
type Backlog struct {
	Source    string        `db:"source" json:"source"`
	State     string        `db:"state" json:"state"`
	Rows      int64         `db:"rows" json:"rows"`
	OldestAge time.Duration `db:"oldest_age" json:"oldest_age"` // since its receipt
}

// Backlogs returns what is not processed. Its cost grows with the number of
// such rows, not with the size of the inbox.
func Backlogs(ctx context.Context, db DB) ([]Backlog, error) {
	rows, err := db.Query(ctx, backlogSQL)
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	backlogs, err := pgx.CollectRows(rows, pgx.RowToStructByName[Backlog])
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", err)
	}
	return backlogs, nil
}

// Orphans counts the rows of sources that have waited for longer than each
// source's rows are expected to. A source without any is not named.
func Orphans(ctx context.Context, db DB, after map[string]time.Duration) (map[string]int64, error) {
	var sources []string
	var horizons []time.Duration
	for source, horizon := range after {
		sources, horizons = append(sources, source), append(horizons, horizon)
	}
	rows, err := db.Query(ctx, orphansSQL, sources, horizons)
	if err != nil {
		return nil, fmt.Errorf("count the orphans: %w", err)
	}
	orphans := make(map[string]int64)
	var source string
	var count int64
	if _, err := pgx.ForEachRow(rows, []any{&source, &count}, func() error { orphans[source] = count; return nil }); err != nil {
		return nil, fmt.Errorf("count the orphans: %w", err)
	}
	return orphans, nil
}

package effects

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/retry.sql
	retrySQL string
	//go:embed sql/discard.sql
	discardSQL string
	//go:embed sql/trim.sql
	trimSQL string
)

// Entry is an effect as an operator looks at it.
type Entry struct {
	ID            int64      `db:"id" json:"id"`
	Source        string     `db:"source" json:"source"`
	EventKey      string     `db:"event_key" json:"event_key"`
	Name          string     `db:"name" json:"name"`
	InboxID       int64      `db:"inbox_id" json:"inbox_id"`
	ReceivedAt    time.Time  `db:"received_at" json:"received_at"`
	Change        *Change    `db:"change" json:"change,omitempty"`
	State         State      `db:"state" json:"state"`
	Attempts      int        `db:"attempts" json:"attempts"`
	NextAttemptAt *time.Time `db:"next_attempt_at" json:"next_attempt_at,omitempty"`
	ClaimedAt     *time.Time `db:"claimed_at" json:"claimed_at,omitempty"`
	LastError     *string    `db:"last_error" json:"last_error,omitempty"`
	CreatedAt     time.Time  `db:"created_at" json:"created_at"`
	PerformedAt   *time.Time `db:"performed_at" json:"performed_at,omitempty"`
}

// Filter narrows what is listed or operated on; empty fields do not.
type Filter struct {
	IDs    []int64
	State  State // for List only
	Source string
	Name   string
}

// List returns up to limit effects that the filter lets through, the newest first.
func List(ctx context.Context, db DB, filter Filter, limit int) ([]Entry, error) {
	rows, err := db.Query(ctx, listSQL, orNull(string(filter.State)), orNull(filter.Source), orNull(filter.Name), filter.IDs, limit)
	if err != nil {
		return nil, fmt.Errorf("list effects: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByName[Entry])
	if err != nil {
		return nil, fmt.Errorf("list effects: %w", err)
	}
	return entries, nil
}

// Retried is what Retry did, by ids.
type Retried struct {
	GivenUp []int64 // were given up, and have all their attempts before them
	Waiting []int64 // waited for their next attempt, and have as many left as before
}

// Retry makes effects due now that were given up or wait for their next attempt.
func Retry(ctx context.Context, db DB, filter Filter) (Retried, error) {
	var done Retried
	rows, err := db.Query(ctx, retrySQL, filter.IDs, orNull(filter.Source), orNull(filter.Name))
	if err != nil {
		return done, fmt.Errorf("retry effects: %w", err)
	}
	var id int64
	var givenUp bool
	_, err = pgx.ForEachRow(rows, []any{&id, &givenUp}, func() error {
		if givenUp {
			done.GivenUp = append(done.GivenUp, id)
		} else {
			done.Waiting = append(done.Waiting, id)
		}
		return nil
	})
	if err != nil {
		return Retried{}, fmt.Errorf("retry effects: %w", err)
	}
	return done, nil
}

// Discard deletes effects that are not performed, and not being performed right
// now, and returns their ids: nothing will come of them.
func Discard(ctx context.Context, db DB, filter Filter) ([]int64, error) {
	rows, err := db.Query(ctx, discardSQL, filter.IDs, orNull(filter.Source), orNull(filter.Name))
	if err != nil {
		return nil, fmt.Errorf("discard effects: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("discard effects: %w", err)
	}
	return ids, nil
}

// trimTimeout bounds one statement.
const trimTimeout = 30 * time.Second

// Trim deletes effects that were performed longer ago than the retention (a day
// or more), a bounded number at a time, and returns how many. It is for a role
// that owns nothing: the reconciler's.
func Trim(ctx context.Context, db DB, retention time.Duration) (int64, error) {
	const atATime = 10_000
	for total := int64(0); ; {
		deleted, err := trim(ctx, db, retention, atATime)
		total += deleted
		if err != nil {
			return total, fmt.Errorf("delete effects performed long ago: %w", err)
		}
		if deleted < atATime {
			return total, nil
		}
	}
}

func trim(ctx context.Context, db DB, retention time.Duration, most int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	rows, err := db.Query(ctx, trimSQL, retention, most)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}

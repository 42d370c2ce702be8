// Package partitions keeps the daily partitions of inbox_payload: it has them
// made ahead of time and drops those past the retention, as the database's own
// functions allow a role that owns no table.
//
// Nothing breaks while it is not done. Bodies of a day without a partition go
// to the default one, and bodies past the retention just stay; so what fails
// here, mostly for a lock that was not to be had soon, is for the next round.
package partitions

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/make.sql
	makeSQL string
	//go:embed sql/drop.sql
	dropSQL string
	//go:embed sql/trim.sql
	trimSQL string
)

// DB is what the package needs of a pool or a connection.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The time-outs of one statement.
const (
	makeTimeout = 10 * time.Second
	dropTimeout = 60 * time.Second // moves the bodies that must stay
	trimTimeout = 30 * time.Second
)

// MinRetention is the shortest time for which bodies can be kept: a day's
// partition may still be written to shortly after the day.
const MinRetention = 24 * time.Hour

// Made is a day's partition that was not there.
type Made struct {
	Partition string
	// Made is false for a day of which the default partition has rows already:
	// the day's bodies stay there.
	Made bool
}

// MakeAhead makes the partitions of today and of the days ahead (at most 60),
// by UTC, and returns those that were not there.
func MakeAhead(ctx context.Context, db DB, days int) ([]Made, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	rows, err := db.Query(ctx, makeSQL, days)
	if err != nil {
		return nil, fmt.Errorf("make payload partitions: %w", err)
	}
	made, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Made])
	if err != nil {
		return nil, fmt.Errorf("make payload partitions: %w", err)
	}
	return made, nil
}

// Expired is a partition past the retention.
type Expired struct {
	Partition string
	// Kept is how many bodies it has whose rows are not processed. When the
	// partition is Dropped they have been moved to the default one. More than
	// 10,000 or 64 MiB are not moved; then nothing is Dropped.
	Kept    int
	Dropped bool
}

// DropExpired drops the partitions whose day ended longer ago than the
// retention, each in a transaction of its own, and returns what became of each;
// with an error, of those before it.
func DropExpired(ctx context.Context, db DB, retention time.Duration) ([]Expired, error) {
	var all []Expired
	for after := ""; ; {
		expired, err := dropNext(ctx, db, retention, after)
		if errors.Is(err, pgx.ErrNoRows) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("drop an expired payload partition: %w", err)
		}
		all = append(all, expired)
		after = expired.Partition
	}
}

func dropNext(ctx context.Context, db DB, retention time.Duration, after string) (Expired, error) {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	var e Expired
	err := db.QueryRow(ctx, dropSQL, retention, after).Scan(&e.Partition, &e.Kept, &e.Dropped)
	return e, err
}

// TrimDefault deletes the bodies in the default partition that are past the
// retention and whose rows are processed, a bounded number at a time, and
// returns how many it deleted.
func TrimDefault(ctx context.Context, db DB, retention time.Duration) (int64, error) {
	const atATime = 1000
	for total := int64(0); ; {
		deleted, err := trim(ctx, db, retention, atATime)
		total += deleted
		if err != nil {
			return total, fmt.Errorf("delete expired payloads from the default partition: %w", err)
		}
		if deleted < atATime {
			return total, nil
		}
	}
}

func trim(ctx context.Context, db DB, retention time.Duration, most int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	var deleted int64
	err := db.QueryRow(ctx, trimSQL, retention, most).Scan(&deleted)
	return deleted, err
}

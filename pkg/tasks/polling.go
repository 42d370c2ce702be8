package tasks

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/settle.sql
	settleSQL string
	//go:embed sql/flag.sql
	flagSQL string
	//go:embed sql/hand_out.sql
	handOutSQL string
	//go:embed sql/open.sql
	openSQL string
	//go:embed sql/polled.sql
	polledSQL string
	//go:embed sql/postpone.sql
	postponeSQL string
	//go:embed sql/pause.sql
	pauseSQL string
	//go:embed sql/take_slot.sql
	takeSlotSQL string
	//go:embed sql/counts.sql
	countsSQL string
)

// Settle closes a source's tasks whose result is in the inbox, and returns how
// many it closed.
func Settle(ctx context.Context, db DB, source string) (int64, error) {
	tag, err := db.Exec(ctx, settleSQL, source)
	if err != nil {
		return 0, fmt.Errorf("settle the tasks of %q: %w", source, err)
	}
	return tag.RowsAffected(), nil
}

// Named is a task by all its names; those not known are empty.
type Named struct {
	ID             int64
	TaskID         string
	IdempotencyKey string
}

// Flag marks a source's tasks that are open past the horizon as in need of
// investigation, and returns those that were not marked before.
func Flag(ctx context.Context, db DB, source string, horizon time.Duration) ([]Named, error) {
	rows, err := db.Query(ctx, flagSQL, source, horizon)
	if err != nil {
		return nil, fmt.Errorf("look for tasks of %q past the horizon: %w", source, err)
	}
	flagged, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Named])
	if err != nil {
		return nil, fmt.Errorf("look for tasks of %q past the horizon: %w", source, err)
	}
	return flagged, nil
}

// Overdue is a task that is to be asked for.
type Overdue struct {
	ID     int64
	TaskID string
}

// HandOut returns up to limit tasks that were submitted longer than after ago,
// are open, and whose turn it is; they will not be handed out again before the
// given time has passed.
func HandOut(ctx context.Context, db DB, source string, after time.Duration, limit int, again time.Duration) ([]Overdue, error) {
	rows, err := db.Query(ctx, handOutSQL, source, after, limit, again)
	if err != nil {
		return nil, fmt.Errorf("look for overdue tasks of %q: %w", source, err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Overdue])
	if err != nil {
		return nil, fmt.Errorf("look for overdue tasks of %q: %w", source, err)
	}
	return due, nil
}

// Open reports whether a task still waits for its result.
func Open(ctx context.Context, db DB, id int64) (bool, error) {
	var open bool
	if err := ignoreNoRows(db.QueryRow(ctx, openSQL, id).Scan(&open)); err != nil {
		return false, fmt.Errorf("look at submitted task %d: %w", id, err)
	}
	return open, nil
}

// Poll is what came of asking for a task.
type Poll struct {
	ID      int64
	Result  string // what the provider said, or why it could not be asked
	Settled bool
	// Next is the time until the task is asked for again; Rare takes its place
	// once the task is past the horizon.
	Next, Rare, Horizon time.Duration
}

// maxResult bounds what is kept of a poll's result, in bytes.
const maxResult = 300

// Polled writes a poll down and returns how many there have been.
func Polled(ctx context.Context, db DB, p Poll) (int, error) {
	result := strings.ToValidUTF8(strings.ReplaceAll(p.Result, "\x00", ""), "\uFFFD")
	if len(result) > maxResult {
		result = strings.ToValidUTF8(result[:maxResult], "") + "…"
	}
	polls := 0
	err := ignoreNoRows(db.QueryRow(ctx, polledSQL, p.ID, result, p.Next, p.Rare, p.Horizon, p.Settled).Scan(&polls))
	if err != nil {
		return 0, fmt.Errorf("record a poll of submitted task %d: %w", p.ID, err)
	}
	return polls, nil
}

// Postpone puts a task's next poll off without counting one.
func Postpone(ctx context.Context, db DB, id int64, until time.Time) error {
	if _, err := db.Exec(ctx, postponeSQL, id, until); err != nil {
		return fmt.Errorf("postpone submitted task %d: %w", id, err)
	}
	return nil
}

// Pause stops all polls of a source until a time.
func Pause(ctx context.Context, db DB, source string, until time.Time, reason string) error {
	if _, err := db.Exec(ctx, pauseSQL, source, until, reason); err != nil {
		return fmt.Errorf("pause the polls of %q: %w", source, err)
	}
	return nil
}

// Slot is leave to make one poll.
type Slot struct {
	Wait        time.Duration // until it may be made
	PausedUntil time.Time     // zero unless the source is paused
}

// TakeSlot takes the source's next slot; slots are spaced apart whoever takes
// them, which makes one rate limit of all reconcilers.
func TakeSlot(ctx context.Context, db DB, source string, apart time.Duration) (Slot, error) {
	var s Slot
	var paused *time.Time
	if err := db.QueryRow(ctx, takeSlotSQL, source, apart).Scan(&s.Wait, &paused); err != nil {
		return Slot{}, fmt.Errorf("take a slot for a poll of %q: %w", source, err)
	}
	if paused != nil {
		s.PausedUntil = *paused
	}
	return s, nil
}

// Counts says how a source's open tasks stand.
type Counts struct {
	Open        int64
	Overdue     int64 // of those with an id
	PastHorizon int64
}

// Count counts a source's open tasks.
func Count(ctx context.Context, db DB, source string, after, horizon time.Duration) (Counts, error) {
	var c Counts
	if err := db.QueryRow(ctx, countsSQL, source, after, horizon).Scan(&c.Open, &c.Overdue, &c.PastHorizon); err != nil {
		return Counts{}, fmt.Errorf("count the open tasks of %q: %w", source, err)
	}
	return c, nil
}

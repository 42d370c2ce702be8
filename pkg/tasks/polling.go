package tasks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/settle.sql
	settleSQL string
	//go:embed sql/settle_messages.sql
	settleMessagesSQL string
	//go:embed sql/enrol.sql
	enrolSQL string
	//go:embed sql/flag.sql
	flagSQL string
	//go:embed sql/hand_out.sql
	handOutSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/give_back.sql
	giveBackSQL string
	//go:embed sql/polled.sql
	polledSQL string
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

// SettleMessages closes a source's messages that have a final status, and those
// that are registered no more, and returns how many it closed.
func SettleMessages(ctx context.Context, db DB, source string) (int64, error) {
	tag, err := db.Exec(ctx, settleMessagesSQL, source)
	if err != nil {
		return 0, fmt.Errorf("settle the messages of %q: %w", source, err)
	}
	return tag.RowsAffected(), nil
}

// Enrol opens up to limit of a source's messages that have no final status so
// long after they were registered, the oldest first, and returns how many. A
// message is enrolled once.
func Enrol(ctx context.Context, db DB, source string, after time.Duration, limit int) (int64, error) {
	tag, err := db.Exec(ctx, enrolSQL, source, after, limit)
	if err != nil {
		return 0, fmt.Errorf("look for messages of %q without a final status: %w", source, err)
	}
	return tag.RowsAffected(), nil
}

// Named is a task by all its names; those not known are empty.
type Named struct {
	ID             int64
	TaskID         string
	IdempotencyKey string
}

// Flag marks up to limit of a source's tasks that are open past the horizon as
// in need of investigation, the oldest first, and returns those. A task is
// marked once.
func Flag(ctx context.Context, db DB, source string, horizon time.Duration, limit int) ([]Named, error) {
	rows, err := db.Query(ctx, flagSQL, source, horizon, limit)
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

// HandOutLimits say what to hand out.
type HandOutLimits struct {
	Source string
	After  time.Duration // tasks that were submitted longer ago
	Limit  int           // of tasks
	// AtATime bounds the tasks that are handed out at a time, whoever did: there
	// is no use in asking for more than can be answered.
	AtATime int
	// Again is how long a task is not handed out again, if its poll does not happen.
	Again time.Duration
}

// HandOut marks overdue tasks whose turn it is as handed out, and returns them;
// none while their source is paused.
func HandOut(ctx context.Context, db DB, l HandOutLimits) ([]Overdue, error) {
	rows, err := db.Query(ctx, handOutSQL, l.Source, l.After, l.Limit, l.AtATime, l.Again)
	if err != nil {
		return nil, fmt.Errorf("look for overdue tasks of %q: %w", l.Source, err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Overdue])
	if err != nil {
		return nil, fmt.Errorf("look for overdue tasks of %q: %w", l.Source, err)
	}
	return due, nil
}

// Claim takes a task that is handed out, in order to ask for it. It returns
// false when there is no need any more: the result has come, the source has
// been paused, or the hand-out has been claimed before, or is too old.
func Claim(ctx context.Context, db DB, id int64) (bool, error) {
	tag, err := db.Exec(ctx, claimSQL, id)
	if err != nil {
		return false, fmt.Errorf("claim submitted task %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// GiveBack takes a hand-out back that was not claimed: its turn comes again.
func GiveBack(ctx context.Context, db DB, id int64) error {
	if _, err := db.Exec(ctx, giveBackSQL, id); err != nil {
		return fmt.Errorf("give submitted task %d back: %w", id, err)
	}
	return nil
}

// Poll is what came of asking for a task.
type Poll struct {
	ID      int64
	Result  string // what the provider said, or why it could not be asked
	Settled bool   // its result is in the inbox; then nothing below counts
	// Next is the time until the task is asked for again; Rare takes its place
	// once the task is older than Horizon.
	Next, Rare, Horizon time.Duration
	// BackOff, where more than 0, is the wait after a first poll; it doubles with
	// each poll there has been, up to Next or Rare, and is shortened by a random
	// part of up to half.
	BackOff time.Duration
}

// Polled writes a poll down. It returns how many there have been, and the wait
// until the next.
func Polled(ctx context.Context, db DB, p Poll) (polls int, next time.Duration, err error) {
	row := db.QueryRow(ctx, polledSQL, p.ID, safe(p.Result), p.Settled, p.Next, p.Rare, p.Horizon, p.BackOff)
	if err := ignoreNoRows(row.Scan(&polls, &next)); err != nil {
		return 0, 0, fmt.Errorf("record a poll of submitted task %d: %w", p.ID, err)
	}
	return polls, next, nil
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

// ignoreNoRows is for rows that were deleted by an operator meanwhile.
func ignoreNoRows(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

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
	//go:embed sql/take_slot.sql
	takeSlotSQL string
	//go:embed sql/pause.sql
	pauseSQL string
	//go:embed sql/end_pause.sql
	endPauseSQL string
)

// TakeSlot takes the next slot for a poll of a source, if it lies at most so
// far ahead and the source is not paused, and returns the wait until then.
// Slots are spaced apart whoever takes them, which makes one rate limit of all
// reconcilers.
func TakeSlot(ctx context.Context, db DB, source string, apart, ahead time.Duration) (wait time.Duration, taken bool, err error) {
	err = db.QueryRow(ctx, takeSlotSQL, source, apart, ahead).Scan(&wait)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("take a slot for a poll of %q: %w", source, err)
	}
	return wait, true, nil
}

// Pause stops all polls of a source for a time from now; a pause that is in
// force and lasts longer stays.
func Pause(ctx context.Context, db DB, source string, d time.Duration, reason string) error {
	if _, err := db.Exec(ctx, pauseSQL, source, d, safe(reason)); err != nil {
		return fmt.Errorf("pause the polls of %q: %w", source, err)
	}
	return nil
}

// EndPause ends a source's pause now if the first word of its reason is one of
// these, and returns whether it has.
func EndPause(ctx context.Context, db DB, source string, reasons []string) (bool, error) {
	tag, err := db.Exec(ctx, endPauseSQL, source, reasons)
	if err != nil {
		return false, fmt.Errorf("end the pause of %q: %w", source, err)
	}
	return tag.RowsAffected() == 1, nil
}

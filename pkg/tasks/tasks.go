package tasks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/record.sql
	recordSQL string
	//go:embed sql/by_key.sql
	byKeySQL string
	//go:embed sql/fill.sql
	fillSQL string
	//go:embed sql/register.sql
	registerSQL string
	//go:embed sql/note.sql
	noteSQL string
	//go:embed sql/list.sql
	listSQL string
)

// DB is what the package needs of a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// MaxKey is the longest task id or idempotency key, in bytes.
const MaxKey = 512

// Recorded is a task that is going to be, or has been, created.
type Recorded struct {
	ID     int64
	TaskID string // empty until it is known
	// Settled: its result has come, though perhaps under another row's id.
	Settled bool
}

// Record notes that a task with this idempotency key is about to be created,
// before it is, and returns the note; the one that is there already when the
// key has been noted before.
func Record(ctx context.Context, db DB, source, idempotencyKey string) (Recorded, error) {
	if len(idempotencyKey) == 0 || len(idempotencyKey) > MaxKey {
		return Recorded{}, fmt.Errorf("record a submission: the idempotency key has %d bytes; use 1 to %d", len(idempotencyKey), MaxKey)
	}
	if _, err := db.Exec(ctx, recordSQL, source, idempotencyKey); err != nil {
		return Recorded{}, fmt.Errorf("record the submission of %q: %w", idempotencyKey, err)
	}
	return ByKey(ctx, db, source, idempotencyKey)
}

// ByKey looks up what is recorded of a task under its idempotency key.
func ByKey(ctx context.Context, db DB, source, idempotencyKey string) (Recorded, error) {
	var r Recorded
	if err := db.QueryRow(ctx, byKeySQL, source, idempotencyKey).Scan(&r.ID, &r.TaskID, &r.Settled); err != nil {
		return Recorded{}, fmt.Errorf("look up the submission of %q: %w", idempotencyKey, err)
	}
	return r, nil
}

// Fill notes the id of a recorded task, unless its delivery was faster. Where
// the id has been registered by itself as well, that row waits for the result,
// and the recorded one is settled.
func Fill(ctx context.Context, db DB, id int64, taskID string) error {
	_, err := db.Exec(ctx, fillSQL, id, taskID)
	if isUniqueViolation(err) { // registered by itself just now; this time it is seen
		_, err = db.Exec(ctx, fillSQL, id, taskID)
	}
	if err != nil {
		return fmt.Errorf("record the task id %q: %w", taskID, err)
	}
	return nil
}

// Note keeps what the provider said to the creation of a recorded task whose
// id is not known, for whoever looks at the list.
func Note(ctx context.Context, db DB, id int64, result string) error {
	if _, err := db.Exec(ctx, noteSQL, id, safe(result)); err != nil {
		return fmt.Errorf("note the result of a submission: %w", err)
	}
	return nil
}

func isUniqueViolation(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23505"
}

// Register notes tasks that were created elsewhere, and returns how many were
// new. Their age counts from now.
func Register(ctx context.Context, db DB, source string, taskIDs []string) (int64, error) {
	for _, id := range taskIDs {
		if strings.TrimSpace(id) == "" || len(id) > MaxKey {
			return 0, fmt.Errorf("register tasks: the id %.40q is empty or has more than %d bytes", id, MaxKey)
		}
	}
	tag, err := db.Exec(ctx, registerSQL, source, taskIDs)
	if err != nil {
		return 0, fmt.Errorf("register %d tasks: %w", len(taskIDs), err)
	}
	return tag.RowsAffected(), nil
}

// Task is a submitted task as an operator looks at it.
type Task struct {
	ID                   int64      `db:"id" json:"id"`
	Source               string     `db:"source" json:"source"`
	IdempotencyKey       *string    `db:"idempotency_key" json:"idempotency_key,omitempty"`
	TaskID               *string    `db:"task_id" json:"task_id,omitempty"`
	CreatedAt            time.Time  `db:"created_at" json:"created_at"`
	SettledAt            *time.Time `db:"settled_at" json:"settled_at,omitempty"`
	Polls                int        `db:"polls" json:"polls"`
	LastPolledAt         *time.Time `db:"last_polled_at" json:"last_polled_at,omitempty"`
	LastPollResult       *string    `db:"last_poll_result" json:"last_poll_result,omitempty"`
	NextPollAt           *time.Time `db:"next_poll_at" json:"next_poll_at,omitempty"`
	NeedsInvestigationAt *time.Time `db:"needs_investigation_at" json:"needs_investigation_at,omitempty"`
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Source             string
	Settled            bool // settled tasks too
	NeedsInvestigation bool // only those
	OlderThan          time.Duration
	Limit              int // at least 1
}

// List returns the tasks that the filter lets through, the oldest first.
func List(ctx context.Context, db DB, f Filter) ([]Task, error) {
	var source *string
	if f.Source != "" {
		source = &f.Source
	}
	rows, err := db.Query(ctx, listSQL, source, f.Settled, f.NeedsInvestigation, f.OlderThan, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list submitted tasks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Task])
	if err != nil {
		return nil, fmt.Errorf("list submitted tasks: %w", err)
	}
	return list, nil
}

// maxResult bounds what is kept of a text from outside, in bytes.
const maxResult = 300

// safe makes one bounded line of a text from outside, which Postgres takes.
func safe(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxResult {
		text = strings.ToValidUTF8(text[:maxResult], "") + "…"
	}
	return text
}

package messages

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/register.sql
	registerSQL string
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/wake.sql
	wakeSQL string
	//go:embed sql/stuck.sql
	stuckSQL string
)

// DB is what the package needs of a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// MaxID is the longest message id, in bytes. Events about a message whose id is
// longer, or not text to Postgres, name it by sha256:<hex of the id>.
const MaxID = 512

// Register makes messages known, so that events about them are applied: those
// that wait for them within moments. It returns how many were new. In the
// transaction that records the sending, a message and its registration stand or
// fall together.
func Register(ctx context.Context, db DB, source string, ids []string) (int64, error) {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return 0, fmt.Errorf("register messages of %q: %w", source, err)
		}
	}
	tag, err := db.Exec(ctx, registerSQL, source, ids)
	if err != nil {
		return 0, fmt.Errorf("register %d messages of %q: %w", len(ids), source, err)
	}
	return tag.RowsAffected(), nil
}

// checkID refuses an id that no event's message is stored under, and says what
// its events' is.
func checkID(id string) error {
	var fault string
	switch {
	case id == "":
		return errors.New("an id is empty")
	case !utf8.ValidString(id) || strings.ContainsRune(id, 0):
		fault = "is not UTF-8 text"
	case len(id) > MaxID:
		fault = fmt.Sprintf("has %d bytes, more than %d", len(id), MaxID)
	default:
		return nil
	}
	return fmt.Errorf("the id %.40q %s: events about it wait for the message sha256:%x, the hash of the id; register that", id, fault, sha256.Sum256([]byte(id)))
}

// Wake makes events due that wait though their message is registered, and returns
// how many: those that a processor was putting off at that very moment.
func Wake(ctx context.Context, db DB) (int64, error) {
	tag, err := db.Exec(ctx, wakeSQL)
	if err != nil {
		return 0, fmt.Errorf("wake waiting events: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Message is a message as an operator looks at it.
type Message struct {
	Source         string     `db:"source" json:"source"`
	MessageID      string     `db:"message_id" json:"message_id"`
	Status         string     `db:"status" json:"status"`
	Rank           int        `db:"rank" json:"rank"`
	StatusAt       *time.Time `db:"status_at" json:"status_at,omitempty"`
	Final          bool       `db:"final" json:"final"`
	Opened         int        `db:"opened" json:"opened"`
	FirstOpenedAt  *time.Time `db:"first_opened_at" json:"first_opened_at,omitempty"`
	Clicked        int        `db:"clicked" json:"clicked"`
	FirstClickedAt *time.Time `db:"first_clicked_at" json:"first_clicked_at,omitempty"`
	RegisteredAt   time.Time  `db:"registered_at" json:"registered_at"`
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Source    string
	Status    string
	IDs       []string
	NotFinal  bool // only those without a final status
	OlderThan time.Duration
	Limit     int // at least 1
}

// List returns the messages that the filter lets through, the oldest registered
// first.
func List(ctx context.Context, db DB, f Filter) ([]Message, error) {
	rows, err := db.Query(ctx, listSQL, orNull(f.Source), orNull(f.Status), f.IDs, f.NotFinal, f.OlderThan, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Message])
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	return list, nil
}

// Stuck counts the messages of sources that have had no final status for longer
// than each source's are expected to. A source without any is not named. Its cost
// grows with the number of such messages, not with the size of the table.
func Stuck(ctx context.Context, db DB, after map[string]time.Duration) (map[string]int64, error) {
	var sources []string
	var horizons []time.Duration
	for source, horizon := range after {
		sources, horizons = append(sources, source), append(horizons, horizon)
	}
	rows, err := db.Query(ctx, stuckSQL, sources, horizons)
	if err != nil {
		return nil, fmt.Errorf("count messages without a final status: %w", err)
	}
	stuck := make(map[string]int64)
	var source string
	var count int64
	if _, err := pgx.ForEachRow(rows, []any{&source, &count}, func() error { stuck[source] = count; return nil }); err != nil {
		return nil, fmt.Errorf("count messages without a final status: %w", err)
	}
	return stuck, nil
}

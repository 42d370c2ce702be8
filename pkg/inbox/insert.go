package inbox

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/insert.sql
var insertSQL string

//go:embed sql/insert_one.sql
var insertOneSQL string

//go:embed sql/find.sql
var findSQL string

// DB is what the package needs of a pool, a connection or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store puts deliveries into the inbox. It is safe for concurrent use.
type Store struct {
	db    DB
	grace time.Duration
}

// NewStore returns a Store. Grace is how long a new row is left to the
// doorbell before processors that scan for due rows take it up.
func NewStore(db DB, grace time.Duration) *Store {
	return &Store{db: db, grace: grace}
}

type eventKey struct{ source, key string }

// Insert stores the deliveries whose key is new and says for each, in the
// order given, what became of it. When it returns, what it calls Stored is
// committed. A delivery that the database refuses fails alone; an error that
// wraps ErrUnavailable means that the fate of all of them is unknown, and the
// same call may be made again.
func (s *Store) Insert(ctx context.Context, deliveries []Delivery) ([]Inserted, error) {
	result := make([]Inserted, len(deliveries))
	first := make(map[eventKey]int, len(deliveries)) // of each key, the delivery that is tried
	order := make([]int, 0, len(deliveries))
	for i := range deliveries {
		key := eventKey{deliveries[i].Source, deliveries[i].EventKey}
		if _, seen := first[key]; !seen {
			first[key] = i
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			strings.Compare(deliveries[a].Source, deliveries[b].Source),
			strings.Compare(deliveries[a].EventKey, deliveries[b].EventKey),
		)
	})
	if err := s.insert(ctx, deliveries, order, result); err != nil {
		return nil, err
	}
	for i := range deliveries {
		winner := first[eventKey{deliveries[i].Source, deliveries[i].EventKey}]
		if winner == i {
			continue
		}
		result[i] = result[winner]
		if result[i].Outcome != Failed {
			result[i].Outcome = sameOrConflict(deliveries[i].hash(), deliveries[winner].hash())
			if result[winner].Outcome == Conflict {
				result[i].Outcome = Conflict
			}
		}
	}
	return result, nil
}

// insert stores the deliveries named by order, halving them to isolate one
// that the database refuses.
func (s *Store) insert(ctx context.Context, deliveries []Delivery, order []int, result []Inserted) error {
	err := s.insertAll(ctx, deliveries, order, result)
	switch {
	case err == nil:
		return nil
	case !IsRowError(err):
		return fmt.Errorf("insert %d deliveries into the inbox: %w", len(order), translate(err))
	case len(order) == 1:
		result[order[0]] = Inserted{Err: fmt.Errorf("insert the delivery into the inbox: %w", err)}
		return nil
	}
	half := len(order) / 2
	if err := s.insert(ctx, deliveries, order[:half], result); err != nil {
		return err
	}
	return s.insert(ctx, deliveries, order[half:], result)
}

func (s *Store) insertAll(ctx context.Context, deliveries []Delivery, order []int, result []Inserted) error {
	in := newColumns(len(order))
	index := make(map[eventKey]int, len(order))
	for _, i := range order {
		if err := in.add(&deliveries[i]); err != nil {
			return err
		}
		index[eventKey{deliveries[i].Source, deliveries[i].EventKey}] = i
	}
	rows, err := s.query(ctx, in)
	if err != nil {
		return err
	}
	var id int64
	var key eventKey
	_, err = pgx.ForEachRow(rows, []any{&id, &key.source, &key.key}, func() error {
		result[index[key]] = Inserted{ID: id, Outcome: Stored}
		delete(index, key)
		return nil
	})
	if err != nil || len(index) == 0 {
		return err
	}
	return s.findWinners(ctx, deliveries, index, result)
}

func (s *Store) query(ctx context.Context, in *columns) (pgx.Rows, error) {
	if len(in.key) == 1 {
		return s.db.Query(ctx, insertOneSQL, in.source[0], in.key[0], in.eventType[0], in.subject[0], in.occurredAt[0], in.origin[0],
			in.hash[0], in.traceparent[0], in.quarantine[0], in.body[0], in.headers[0], s.grace)
	}
	return s.db.Query(ctx, insertSQL, in.source, in.key, in.eventType, in.subject, in.occurredAt, in.origin, in.hash,
		in.traceparent, in.quarantine, in.body, in.headers, s.grace)
}

// findWinners fills in the results of keys that were in the inbox before. It
// has to be a statement of its own: the insert's snapshot may be older than
// the row that it ran into.
func (s *Store) findWinners(ctx context.Context, deliveries []Delivery, index map[eventKey]int, result []Inserted) error {
	var sources, keys []string
	for key := range index {
		sources = append(sources, key.source)
		keys = append(keys, key.key)
	}
	rows, err := s.db.Query(ctx, findSQL, sources, keys)
	if err != nil {
		return err
	}
	var id int64
	var key eventKey
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &key.source, &key.key, &hash}, func() error {
		i := index[key]
		result[i] = Inserted{ID: id, Outcome: sameOrConflict(deliveries[i].hash(), hash)}
		delete(index, key)
		return nil
	})
	if err != nil {
		return err
	}
	for key, i := range index { // deleted in between by an operator: as good as never stored
		result[i] = Inserted{Err: fmt.Errorf("look up the row of source %q, event key %q: it was deleted meanwhile", key.source, key.key)}
	}
	return nil
}

func sameOrConflict(a, b []byte) Outcome {
	if len(a) == 0 || len(b) == 0 || slices.Equal(a, b) {
		return Duplicate
	}
	return Conflict
}

// columns holds a batch the way unnest takes it.
type columns struct {
	source, key, origin, headers                []string
	eventType, subject, traceparent, quarantine []*string
	occurredAt                                  []*time.Time
	hash, body                                  [][]byte
}

func newColumns(n int) *columns {
	return &columns{
		source: make([]string, 0, n), key: make([]string, 0, n), origin: make([]string, 0, n), headers: make([]string, 0, n),
		eventType: make([]*string, 0, n), subject: make([]*string, 0, n), traceparent: make([]*string, 0, n),
		quarantine: make([]*string, 0, n), occurredAt: make([]*time.Time, 0, n),
		hash: make([][]byte, 0, n), body: make([][]byte, 0, n),
	}
}

func (c *columns) add(d *Delivery) error {
	headers := []byte("{}")
	if len(d.Headers) > 0 {
		var err error
		if headers, err = json.Marshal(d.Headers); err != nil {
			return fmt.Errorf("encode the headers: %w", err)
		}
	}
	c.source = append(c.source, d.Source)
	c.key = append(c.key, d.EventKey)
	c.eventType = append(c.eventType, orNull(d.EventType))
	c.subject = append(c.subject, orNull(d.Subject))
	c.occurredAt = append(c.occurredAt, timeOrNull(d.OccurredAt))
	c.origin = append(c.origin, string(d.Origin))
	c.hash = append(c.hash, d.hash())
	c.traceparent = append(c.traceparent, orNull(d.Traceparent))
	c.quarantine = append(c.quarantine, orNull(d.Quarantine))
	c.body = append(c.body, notNil(d.Body))
	c.headers = append(c.headers, string(headers))
	return nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// notNil keeps an empty body from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

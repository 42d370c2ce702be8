package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Database is a database of the system's cluster, as the superuser.
type Database struct {
	DB *pgxpool.Pool
	t  testing.TB
}

// Open returns another database of the cluster.
func (s *System) Open(name string) *Database {
	s.T.Helper()
	pool, err := pgxpool.New(s.T.Context(), s.Postgres.URL(name))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(pool.Close)
	return &Database{DB: pool, t: s.T}
}

// Exec runs a statement.
func (d *Database) Exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.DB.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// Int returns the number that a query returns.
func (d *Database) Int(sql string, args ...any) int {
	d.t.Helper()
	n := 0
	if err := d.DB.QueryRow(d.t.Context(), sql, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// AwaitInt returns when a query returns the number.
func (d *Database) AwaitInt(within time.Duration, want int, sql string, args ...any) {
	d.t.Helper()
	Await(d.t, within, fmt.Sprintf("%s to be %d", sql, want), func() error {
		if got := d.Int(sql, args...); got != want {
			return fmt.Errorf("it is %d", got)
		}
		return nil
	})
}

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/service"
)

// TestASessionThatTakesNoWritesIsLeft has a session that is as one is whose
// server has become a replica.
func TestASessionThatTakesNoWritesIsLeft(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), service.Database{URL: pgtest.New(t), MaxConns: 1, ConnectTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const write = "insert into leases (name, holder, expires_at) values ('a', 'b', now())"
	if _, err := pool.Exec(t.Context(), "set default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	var pgErr *pgconn.PgError
	if _, err := pool.Exec(t.Context(), write); !errors.As(err, &pgErr) || pgErr.Code != "25006" {
		t.Fatalf("the session takes writes: %v", err)
	}
	if _, err := pool.Exec(t.Context(), write); err != nil {
		t.Errorf("the next write: %v", err)
	}
	if _, err := pool.Exec(t.Context(), write); !errors.As(err, &pgErr) || pgErr.Code != "23505" {
		t.Errorf("a duplicate: %v", err)
	}
	if n := pool.Stat().NewConnsCount(); n != 2 {
		t.Errorf("%d connections were made, want 2: other errors close none", n)
	}
}

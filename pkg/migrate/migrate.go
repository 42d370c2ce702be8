// Package migrate applies the schema's migrations. Only the step `catchwater
// migrate` and the tests link it; a service at start never migrates.
package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/catchwater/catchwater/pkg/schema"
)

// Applied is one migration that Up has applied.
type Applied struct {
	Version int64
	Name    string
}

// Up brings the database at url to the newest version and returns what it
// applied, oldest first; nothing when it was there already. Two at once wait
// for each other. The role needs to own the tables and, the first time, to be
// allowed to create roles.
func Up(ctx context.Context, url string) ([]Applied, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	return UpWith(ctx, config)
}

// UpWith is Up for a connection that has been configured already.
func UpWith(ctx context.Context, config *pgx.ConnConfig) ([]Applied, error) {
	db := stdlib.OpenDB(*config)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, schema.Migrations(), goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	var applied []Applied
	for _, result := range results {
		applied = append(applied, Applied{Version: result.Source.Version, Name: result.Source.Path})
	}
	if err != nil {
		return applied, fmt.Errorf("migrate the database: %w", err)
	}
	return applied, nil
}

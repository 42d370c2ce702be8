// Package schema holds the database schema as numbered migrations, and tells
// a service whether the database it met is new enough. It applies nothing:
// that is the separate step `catchwater migrate` (package migrate).
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the numbered SQL files, in the form that goose reads.
func Migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}

// Required is the version that this build's services need at least.
func Required() int64 {
	var newest int64
	entries, err := fs.ReadDir(Migrations(), ".")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		if version, err := strconv.ParseInt(number, 10, 64); err == nil {
			newest = max(newest, version)
		}
	}
	return newest
}

// OutdatedError says that the database has an older schema than the service
// needs.
type OutdatedError struct {
	Found, Required int64
}

func (e *OutdatedError) Error() string {
	if e.Found == 0 {
		return fmt.Sprintf("the database has no Catchwater schema and version %d is needed: run `catchwater migrate`", e.Required)
	}
	return fmt.Sprintf("the database schema is at version %d and version %d is needed: run `catchwater migrate`", e.Found, e.Required)
}

// Querier is the part of a pool or connection that Check needs.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns nil when the schema is at Required or newer, an OutdatedError
// when it is older or absent, and else the error of asking.
func Check(ctx context.Context, db Querier) error {
	var found int64
	err := db.QueryRow(ctx, "select coalesce(max(version_id), 0) from goose_db_version where is_applied").Scan(&found)
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "42501"): // no such table, or not ours to read yet
		found = 0
	case err != nil:
		return fmt.Errorf("read the schema version: %w", err)
	}
	if found < Required() {
		return &OutdatedError{Found: found, Required: Required()}
	}
	return nil
}

// Package postgres opens connection pools the way every service needs them,
// and waits for a database that is away or not migrated yet.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/schema"
	"github.com/catchwater/catchwater/pkg/service"
)

// Open makes a pool without connecting: a database that is away is no reason
// not to start. It fails on settings that cannot work.
func Open(ctx context.Context, settings service.Database) (*pgxpool.Pool, error) {
	if settings.URL == "" {
		return nil, errors.New("no database is named: set --database-url or DATABASE_URL, such as postgres://role:password@host:5432/catchwater")
	}
	config, err := pgxpool.ParseConfig(settings.URL)
	if err != nil {
		return nil, fmt.Errorf("read --database-url: %w", err)
	}
	if settings.MaxConns < 1 || settings.MaxConns > 1000 {
		return nil, fmt.Errorf("--database-max-conns is %d: use 1 to 1000", settings.MaxConns)
	}
	if settings.ConnectTimeout <= 0 {
		return nil, fmt.Errorf("--database-connect-timeout is %s: use more than 0", settings.ConnectTimeout)
	}
	config.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
		return readPassword(config, settings.PasswordFile)
	}
	config.MaxConns = settings.MaxConns
	config.MaxConnIdleTime = 5 * time.Minute
	config.MaxConnLifetime = 5 * time.Minute // so that none outlives a failover for long
	config.ConnConfig.ConnectTimeout = settings.ConnectTimeout
	// After a failover the name may lead to a server that takes no writes.
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// And a session may find itself on one: it is closed, so that the next looks anew.
	config.ConnConfig.OnPgError = func(_ *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.SeverityUnlocalized != "FATAL" && err.Code != readOnlyTransaction
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open a pool of database connections: %w", err)
	}
	return pool, nil
}

// Config reads a connection string, and the password in a file where one is
// named, for a single connection.
func Config(url, passwordFile string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	return config, readPassword(config, passwordFile)
}

// readPassword puts the password that a file holds into config, if there is a
// file. White space around it is trimmed.
func readPassword(config *pgx.ConnConfig, path string) error {
	if path == "" {
		return nil
	}
	password, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the database password: %w", err)
	}
	if config.Password = strings.TrimSpace(string(password)); config.Password == "" {
		return fmt.Errorf("read the database password: %s is empty", path)
	}
	return nil
}

// readOnlyTransaction is the SQLSTATE of a write where none can be made.
const readOnlyTransaction = "25006"

const (
	schemaRetry   = 500 * time.Millisecond
	schemaTimeout = 5 * time.Second
)

// AwaitSchema returns true once the database has the schema that this build
// needs, and false when ctx ends first. Until then the service is held
// unready, and the reason is logged whenever it changes.
func AwaitSchema(ctx context.Context, pool *pgxpool.Pool, health *service.Health, log *slog.Logger) bool {
	const hold = "database"
	for said := ""; ; {
		err := checkSchema(ctx, pool)
		if err == nil {
			health.Release(hold)
			return true
		}
		health.Hold(hold, err.Error())
		var outdated *schema.OutdatedError
		kind := "away"
		if errors.As(err, &outdated) {
			kind = outdated.Error()
		}
		if said != kind && ctx.Err() == nil {
			log.Warn("not ready: waiting for the database", slog.Any("error", err))
			said = kind
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(schemaRetry):
		}
	}
}

func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	return schema.Check(ctx, pool)
}

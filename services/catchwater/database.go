package catchwater

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/pgserver"
	"github.com/catchwater/catchwater/pkg/pgserver/download"
)

// databaseName is the one database of the private cluster.
const databaseName = "catchwater"

// database is the private Postgres of a system.
type database struct {
	server    *pgserver.Server
	passwords map[string]string // by role, made anew at each start
	log       *os.File
}

func startDatabase(ctx context.Context, f *folder, port int) (*database, error) {
	binaries, err := pgserver.FindBinaries()
	if errors.Is(err, pgserver.ErrNoBinaries) {
		binaries, err = download.Binaries(f.path("postgres-binaries"))
	}
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(f.path("logs", "postgres.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the database's log: %w", err)
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Binaries: binaries, DataDir: f.path("postgres"), Port: port, Log: log})
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	d := &database{server: server, passwords: make(map[string]string), log: log}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return d, nil
}

// prepare makes the database, brings it to the current schema, and lets the
// services' roles in.
func (d *database) prepare(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, d.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select 1 from pg_database where datname = $1)", databaseName).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, "create database "+databaseName); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	if _, err := migrate.Up(ctx, d.url()); err != nil {
		return err
	}
	for _, role := range serviceRoles {
		d.passwords[role] = rand.Text() // letters and digits only
		if _, err := conn.Exec(ctx, fmt.Sprintf("alter role %s password '%s'", role, d.passwords[role])); err != nil {
			return fmt.Errorf("let role %s in: %w", role, err)
		}
	}
	return nil
}

func (d *database) url() string { return d.server.URL(databaseName) }

func (d *database) roleURL(role string) string {
	return d.server.UserURL(databaseName, role, d.passwords[role])
}

func (d *database) stop(log *slog.Logger) {
	if err := d.server.Stop(); err != nil {
		log.Error("the database did not stop", slog.Any("error", err))
	}
	_ = d.log.Close()
}

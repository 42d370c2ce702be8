package catchwater

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/schema"
)

type migrateCommand struct {
	DatabaseURL   string `name:"database-url" help:"Connection string of a role that owns the schema and may create roles; DATABASE_URL when not given."`
	PasswordFile  string `name:"database-password-file" env:"CATCHWATER_DATABASE_PASSWORD_FILE" help:"Path of a file with that role's password, for a connection string without one."`
	RolePasswords string `name:"role-passwords" env:"CATCHWATER_ROLE_PASSWORDS" help:"Folder of files called catchwater_ingress, catchwater_processor and catchwater_reconciler, which hold the passwords that these roles are given."`
}

func (c migrateCommand) Run(ctx context.Context, s *settings, out output) error {
	url := c.DatabaseURL
	if url == "" {
		var err error
		if url, err = s.get("DATABASE_URL"); err != nil {
			return err
		}
	}
	config, err := postgres.Config(url, c.PasswordFile)
	if err != nil {
		return err
	}
	passwords, err := c.readRolePasswords()
	if err != nil {
		return err
	}
	applied, err := migrate.UpWith(ctx, config)
	for _, m := range applied {
		fmt.Fprintf(out, "applied %s\n", m.Name)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the schema is at version %d\n", schema.Required())
	if len(passwords) == 0 {
		return nil
	}
	if err := setPasswords(ctx, config, passwords); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d roles have the passwords in %s\n", len(passwords), c.RolePasswords)
	return nil
}

// readRolePasswords returns the passwords of the services' roles. All of them are
// read before anything is done, so that one that cannot be used stops all.
func (c migrateCommand) readRolePasswords() (map[string]string, error) {
	if c.RolePasswords == "" {
		return nil, nil
	}
	passwords := make(map[string]string)
	var errs []error
	for _, role := range serviceRoles {
		text, err := os.ReadFile(filepath.Join(c.RolePasswords, role))
		if err != nil {
			errs = append(errs, fmt.Errorf("read the password of %s: %w", role, err))
			continue
		}
		passwords[role], err = checkPassword(role, string(text))
		errs = append(errs, err)
	}
	return passwords, errors.Join(errs...)
}

func setPasswords(ctx context.Context, config *pgx.ConnConfig, passwords map[string]string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, role := range serviceRoles {
		if err := setPassword(ctx, conn, role, passwords[role]); err != nil {
			return err
		}
	}
	return nil
}

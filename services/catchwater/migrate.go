package catchwater

import (
	"context"
	"fmt"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/schema"
)

type migrateCommand struct {
	DatabaseURL string `name:"database-url" help:"Connection string of a role that owns the schema and may create roles; DATABASE_URL when not given."`
}

func (c migrateCommand) Run(ctx context.Context, s *settings, out output) error {
	url := c.DatabaseURL
	if url == "" {
		var err error
		if url, err = s.get("DATABASE_URL"); err != nil {
			return err
		}
	}
	applied, err := migrate.Up(ctx, url)
	for _, m := range applied {
		fmt.Fprintf(out, "applied %s\n", m.Name)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the schema is at version %d\n", schema.Required())
	return nil
}

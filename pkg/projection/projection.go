// Package projection says what it is to make something of inbox rows. Each
// projection is a package of its own (answers, messages) that knows only what
// its rows mean: claiming them, marking them, trying again and giving up are
// the processor's, and the same for all.
package projection

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// Projection applies the rows of one or more sources. It must be comparable:
// sources with equal projections are applied together.
type Projection interface {
	// Apply applies all rows within tx, except those that its result names as
	// failed or waiting. An error means that nothing was applied; when the
	// database refused a value, the rows are tried again in halves until the one
	// at fault stands alone.
	Apply(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (Result, error)
}

// Result is what became of the rows that Apply was given, by their ids. A row
// that it does not name was applied, and no more is to be said of it.
type Result struct {
	// Failed are rows that were not applied. An inbox.PermanentError among them
	// is not tried again.
	Failed map[int64]error
	// Waiting are rows that cannot be applied yet, through no fault of theirs,
	// and what they wait for.
	Waiting map[int64]string
	// Changes are what applied rows did to their subjects.
	Changes map[int64]Change
}

// Change is what an event did to its subject.
type Change struct {
	// Status is the one that the event gives its subject, and empty where it
	// gives none.
	Status string `json:"status,omitempty"`
	// Previous is the subject's status before a change, empty where it had none.
	Previous string `json:"previous,omitempty"`
	// Changed says that the subject has newly got the status. An event that comes
	// late, or says what is known, changes nothing.
	Changed bool `json:"-"`
}

// None is the projection of sources of which nothing is to be made.
type None struct{}

// Apply does nothing.
func (None) Apply(context.Context, pgx.Tx, []inbox.Row) (Result, error) { return Result{}, nil }

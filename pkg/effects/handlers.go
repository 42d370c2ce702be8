package effects

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/source"
)

// Handlers are the functions of a Go program that the sources file can name as
// handlers.
type Handlers struct {
	// InTransaction are run within the transaction that applies the event, after
	// its projection, for effects with transaction: true. What they do with tx is
	// committed with the event or not at all. They may be run again after an attempt
	// that was rolled back, so they do nothing but with tx, and are quick: others
	// wait. Committing is not theirs. Their error fails the event alone, which is tried again; an
	// inbox.PermanentError quarantines it at once.
	InTransaction map[string]func(ctx context.Context, tx pgx.Tx, e Event) error
	// AfterCommit are run once the event is processed, apart from everything else.
	// An error is tried again as the effect's settings say. After a crash the same
	// call comes again, with the same idempotency key.
	AfterCommit map[string]func(ctx context.Context, e Event, idempotencyKey string) error
}

// Check says which handlers the sources name that are not registered.
func (h Handlers) Check(sources []*source.Source) error {
	for _, s := range sources {
		for _, e := range s.Effects {
			if e.Handler == "" {
				continue
			}
			field, registered := "AfterCommit", h.AfterCommit[e.Handler] != nil
			if e.Transaction {
				field, registered = "InTransaction", h.InTransaction[e.Handler] != nil
			}
			if !registered {
				return fmt.Errorf("source %q, effect %q: handler %q is not in this program: register it in processor.Config.Handlers.%s and run "+
					"that program instead of this one (docs/effects.md), or take the effect out of the sources file", s.Name, e.Name, e.Handler, field)
			}
		}
	}
	return nil
}

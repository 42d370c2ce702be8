package catchwater

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/source"
)

type effectsCommand struct {
	List    effectsListCommand    `cmd:"" help:"List effects, the newest first."`
	Show    effectsShowCommand    `cmd:"" help:"Show one effect with its whole key and error, as JSON."`
	Retry   effectsRetryCommand   `cmd:"" help:"Make effects due now that were given up, or that wait for their next attempt."`
	Discard effectsDiscardCommand `cmd:"" help:"Let go of effects that are not performed: nothing will come of them."`
}

type effectsListCommand struct {
	State  string `enum:",pending,performed,given_up" default:"" help:"Only those in this state: pending, performed or given_up."`
	Source string `help:"Only this source's."`
	Name   string `help:"Only those of this name."`
	Limit  int    `default:"50" help:"Most effects listed."`
	JSON   bool   `help:"One JSON object a line."`
}

func (c effectsListCommand) Run(ctx context.Context, s *settings, out output, hints hints) error {
	if err := checkList(c.Limit, 0); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	entries, err := effects.List(ctx, conn, effects.Filter{State: effects.State(c.State), Source: c.Source, Name: c.Name}, c.Limit+1)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		hints.unknownEffect(s, c.Source, c.Name)
	}
	entries, more := limited(entries, c.Limit)
	if c.JSON {
		return printJSON(out, entries)
	}
	table := newTable(out, "ID", "SOURCE", "EFFECT", "EVENT KEY", "CREATED", "STATE", "ATTEMPTS", "NEXT", "LAST ERROR")
	for _, e := range entries {
		next := "-"
		switch {
		case e.ClaimedAt != nil:
			next = "under way"
		case e.NextAttemptAt != nil:
			next = e.NextAttemptAt.Format(time.DateTime)
		}
		table.row(e.ID, e.Source, e.Name, e.EventKey, e.CreatedAt, e.State, e.Attempts, next, or(e.LastError, "-"))
	}
	return table.end(more)
}

type effectsShowCommand struct {
	ID int64 `arg:"" help:"The effect's id."`
}

func (c effectsShowCommand) Run(ctx context.Context, s *settings, out output) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	entries, err := effects.List(ctx, conn, effects.Filter{IDs: []int64{c.ID}}, 1)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return fmt.Errorf("there is no effect %d", c.ID)
	}
	return printJSON(out, entries)
}

// chosen is which effects a command is about.
type chosen struct {
	IDs    []int64 `arg:"" optional:"" name:"id" help:"The effects' ids."`
	Source string  `help:"Those of this source."`
	Name   string  `help:"Those of this name."`
}

func (c chosen) filter() effects.Filter {
	return effects.Filter{IDs: c.IDs, Source: c.Source, Name: c.Name}
}

// report says which of the ids asked for were not done, and hints at names that
// are unknown where nothing was.
func (c chosen) report(s *settings, out output, hints hints, done []int64, not string) {
	for _, id := range c.IDs {
		if !slices.Contains(done, id) {
			fmt.Fprintf(out, "effect %d %s; nothing was done\n", id, not)
		}
	}
	if len(done) == 0 {
		hints.unknownEffect(s, c.Source, c.Name)
	}
}

type effectsRetryCommand struct{ chosen }

// Validate refuses a command about everything there is, which is seldom meant. All
// of a source is: its target was away.
func (c effectsRetryCommand) Validate() error {
	if len(c.IDs) == 0 && c.Source == "" && c.Name == "" {
		return errors.New("say which effects: their ids, or --source, --name or both")
	}
	return nil
}

func (c effectsRetryCommand) Run(ctx context.Context, s *settings, out output, hints hints) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	done, err := effects.Retry(ctx, conn, c.filter())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d effects that were given up will be tried again, with all their attempts\n", len(done.GivenUp))
	fmt.Fprintf(out, "%d effects that waited for their next attempt are due now\n", len(done.Waiting))
	c.report(s, out, hints, slices.Concat(done.GivenUp, done.Waiting), "is due already, under way, performed, or not there")
	return nil
}

type effectsDiscardCommand struct{ chosen }

// Validate asks for the effect's whole name: what is discarded does not come back.
func (c effectsDiscardCommand) Validate() error {
	if len(c.IDs) == 0 && (c.Source == "" || c.Name == "") {
		return errors.New("say which effects: their ids, or both --source and --name, since one of these alone is about several effects")
	}
	return nil
}

func (c effectsDiscardCommand) Run(ctx context.Context, s *settings, out output, hints hints) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ids, err := effects.Discard(ctx, conn, c.filter())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d effects were discarded\n", len(ids))
	c.report(s, out, hints, ids, "is performed, under way, or not there")
	return nil
}

// checkEffects finds out whether this program's processor can perform the effects
// that the sources have.
func checkEffects(sources *source.Config) error {
	if err := (effects.Handlers{}).Check(sources.Sources); err != nil {
		return err
	}
	var errs []error
	for _, s := range sources.Sources {
		for _, e := range s.Effects {
			_, err := target.Open(s, e, target.Options{Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

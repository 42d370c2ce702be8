package catchwater

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/source"
)

type effectsCommand struct {
	List    effectsListCommand    `cmd:"" help:"List effects, the newest first."`
	Retry   effectsRetryCommand   `cmd:"" help:"Make effects that were given up due again."`
	Discard effectsDiscardCommand `cmd:"" help:"Let go of effects that are not performed: nothing will come of them."`
}

type effectsListCommand struct {
	State  string `enum:",pending,performed,given_up" default:"" help:"Only those in this state: pending, performed or given_up."`
	Source string `help:"Only this source's."`
	Name   string `help:"Only those of this name."`
	Limit  int    `default:"50" help:"Most effects listed."`
	JSON   bool   `help:"One JSON object a line."`
}

func (c effectsListCommand) Run(ctx context.Context, s *settings, out output) error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit is %d: use at least 1", c.Limit)
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	entries, err := effects.List(ctx, conn, effects.Filter{State: effects.State(c.State), Source: c.Source, Name: c.Name}, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, entries)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSOURCE\tEFFECT\tEVENT KEY\tCREATED\tSTATE\tATTEMPTS\tNEXT\tLAST ERROR")
	for _, e := range entries {
		next := "-"
		switch {
		case e.ClaimedAt != nil:
			next = "under way"
		case e.NextAttemptAt != nil:
			next = e.NextAttemptAt.Format(time.DateTime)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%.60s\t%s\t%s\t%d\t%s\t%.80s\n", e.ID, e.Source, e.Name, e.EventKey,
			e.CreatedAt.Format(time.DateTime), e.State, e.Attempts, next, or(e.LastError, "-"))
	}
	return table.Flush()
}

// chosen is which effects a command is about.
type chosen struct {
	IDs    []int64 `arg:"" optional:"" name:"id" help:"The effects' ids."`
	Source string  `help:"Those of this source."`
	Name   string  `help:"Those of this name."`
}

// filter refuses a command about everything there is, which is seldom meant.
func (c chosen) filter() (effects.Filter, error) {
	if len(c.IDs) == 0 && c.Source == "" && c.Name == "" {
		return effects.Filter{}, errors.New("say which effects: their ids, or --source and --name")
	}
	return effects.Filter{IDs: c.IDs, Source: c.Source, Name: c.Name}, nil
}

// report says which ids were done, and which of those asked for were not.
func (c chosen) report(out output, done []int64, did, not string) {
	fmt.Fprintf(out, "%d effects %s\n", len(done), did)
	for _, id := range c.IDs {
		if !slices.Contains(done, id) {
			fmt.Fprintf(out, "effect %d %s; nothing was done\n", id, not)
		}
	}
}

type effectsRetryCommand struct{ chosen }

func (c effectsRetryCommand) Run(ctx context.Context, s *settings, out output) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ids, err := effects.Retry(ctx, conn, filter)
	if err != nil {
		return err
	}
	c.report(out, ids, "will be tried again", "was not given up")
	return nil
}

type effectsDiscardCommand struct{ chosen }

func (c effectsDiscardCommand) Run(ctx context.Context, s *settings, out output) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ids, err := effects.Discard(ctx, conn, filter)
	if err != nil {
		return err
	}
	c.report(out, ids, "were discarded", "is performed, under way, or not there")
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

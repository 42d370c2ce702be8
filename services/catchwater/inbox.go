package catchwater

import (
	"context"
	"fmt"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
)

type inboxCommand struct {
	List  inboxListCommand  `cmd:"" help:"List rows, the newest first."`
	Show  inboxShowCommand  `cmd:"" help:"Show one row, or its body's raw bytes."`
	Retry inboxRetryCommand `cmd:"" help:"Release rows from quarantine, to be processed again; those that were refused at their receipt are read again by the source's settings."`
}

type inboxListCommand struct {
	State     string        `enum:",pending,waiting,processed,quarantined" default:"" help:"Only rows in this state: pending, waiting, processed or quarantined."`
	Source    string        `help:"Only this source's."`
	OlderThan time.Duration `help:"Only rows received longer ago."`
	Limit     int           `default:"50" help:"Most rows listed."`
	JSON      bool          `help:"One JSON object a line."`
}

func (c inboxListCommand) Run(ctx context.Context, s *settings, out output) error {
	if err := checkList(c.Limit, c.OlderThan); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	entries, err := inbox.List(ctx, conn, inbox.Filter{State: c.State, Source: c.Source, OlderThan: c.OlderThan, Limit: c.Limit + 1})
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := s.checkSource(c.Source); err != nil {
			return err
		}
	}
	entries, more := limited(entries, c.Limit)
	if c.JSON {
		return printJSON(out, entries)
	}
	table := newTable(out, "ID", "SOURCE", "EVENT KEY", "TYPE", "RECEIVED", "ORIGIN", "STATE", "ATTEMPTS", "LAST ERROR")
	for _, e := range entries {
		table.row(e.ID, e.Source, e.EventKey, or(e.EventType, "-"), e.ReceivedAt, e.Origin, e.State, e.Attempts, or(e.LastError, "-"))
	}
	return table.end(more)
}

type inboxShowCommand struct {
	ID   int64 `arg:"" help:"The row's id."`
	Body bool  `help:"Write the body's raw bytes, and nothing else."`
}

func (c inboxShowCommand) Run(ctx context.Context, s *settings, out output) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if c.Body {
		body, err := inbox.Body(ctx, conn, c.ID)
		if err != nil {
			return err
		}
		_, err = out.Write(body)
		return err
	}
	entries, err := inbox.List(ctx, conn, inbox.Filter{IDs: []int64{c.ID}, Limit: 1})
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return fmt.Errorf("there is no inbox row %d", c.ID)
	}
	return printJSON(out, entries)
}

type inboxRetryCommand struct {
	IDs []int64 `arg:"" name:"id" help:"The rows' ids."`
}

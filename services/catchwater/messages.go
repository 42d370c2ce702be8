package catchwater

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/catchwater/catchwater/pkg/messages"
	"github.com/catchwater/catchwater/pkg/source"
)

type messagesCommand struct {
	Add  messagesAddCommand  `cmd:"" help:"Register messages, so that events about them are applied: those that wait for them, and those to come."`
	List messagesListCommand `cmd:"" help:"List messages with their status, the oldest first."`
}

type messagesAddCommand struct {
	Source string   `required:"" help:"Source of the events about the messages."`
	IDs    []string `arg:"" name:"message-id" help:"The provider's message ids."`
}

func (c messagesAddCommand) Run(ctx context.Context, s *settings, out output) error {
	configured, err := s.source(c.Source)
	if err != nil {
		return err
	}
	if configured.Projection != source.ProjectionMessages {
		return fmt.Errorf("source %q has projection %s: only events of projection messages are about messages", c.Source, configured.Projection)
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	added, err := messages.Register(ctx, conn, c.Source, c.IDs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "registered %d messages of %d; the others were known\n", added, len(c.IDs))
	return nil
}

type messagesListCommand struct {
	IDs       []string      `arg:"" optional:"" name:"message-id" help:"Only these."`
	Source    string        `help:"Only this source's."`
	Status    string        `help:"Only those with this status."`
	NotFinal  bool          `help:"Only those without a final status."`
	OlderThan time.Duration `help:"Only those registered longer ago."`
	Limit     int           `default:"100" help:"Most messages listed."`
	JSON      bool          `help:"One JSON object a line."`
}

func (c messagesListCommand) Run(ctx context.Context, s *settings, out output) error {
	if err := checkList(c.Limit, c.OlderThan); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	list, err := messages.List(ctx, conn, messages.Filter{
		Source: c.Source, Status: c.Status, IDs: c.IDs, NotFinal: c.NotFinal, OlderThan: c.OlderThan, Limit: c.Limit + 1,
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := errors.Join(s.checkSource(c.Source), s.checkStatus(c.Status)); err != nil {
			return err
		}
	}
	list, more := limited(list, c.Limit)
	if c.JSON {
		return printJSON(out, list)
	}
	table := newTable(out, "SOURCE", "MESSAGE", "REGISTERED", "STATUS", "SINCE", "OPENED", "CLICKED")
	for _, m := range list {
		since := "-"
		if m.StatusAt != nil {
			since = m.StatusAt.Format(time.DateTime)
		}
		table.row(m.Source, m.MessageID, m.RegisteredAt, m.Status, since, m.Opened, m.Clicked)
	}
	return table.end(more)
}

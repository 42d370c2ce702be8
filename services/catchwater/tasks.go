package catchwater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/submit"
	"github.com/catchwater/catchwater/pkg/tasks"
)

type tasksCommand struct {
	Submit       submitCommand       `cmd:"" help:"Create a task at the provider, safely: the key is recorded first."`
	Add          addCommand          `cmd:"" help:"Register tasks that were created elsewhere, so that their results are waited for."`
	List         listCommand         `cmd:"" help:"List tasks that have no result yet."`
	Status       statusCommand       `cmd:"" help:"Is everything in? Exit status 0 when nothing is open here and nothing queued or running there."`
	CancelQueued cancelQueuedCommand `cmd:"" help:"Remove all tasks at the provider that have not started."`
}

type submitCommand struct {
	Source   string `default:"answers" help:"Source whose provider is to do it."`
	Key      string `required:"" help:"Idempotency key: what the task means, such as prompt, market and day. A resubmission adds -r1, -r2, …"`
	Type     string `default:"answer" help:"The task's type, as the provider names it."`
	Priority int    `help:"The task's priority, as the provider reads it."`
	Data     string `placeholder:"JSON|@FILE|-" help:"The task's payload as JSON: given here, in a file, or on standard input."`
}

func (c submitCommand) Run(ctx context.Context, s *settings, out output) error {
	payload, err := readData(c.Data)
	if err != nil {
		return err
	}
	client, err := s.provider(c.Source)
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	submitter := submit.Submitter{DB: conn, Source: c.Source, Creator: client}
	result, err := submitter.Submit(ctx, answerline.Create{TaskType: c.Type, Priority: c.Priority, IdempotencyKey: c.Key, Payload: payload})
	switch {
	case err != nil:
		return fmt.Errorf("%w\nthe key is recorded: the same command goes on where this one stopped", err)
	case result.TaskID == "":
		fmt.Fprintf(out, "%s: the provider has it already; its delivery will tell the task id\n", c.Key)
	case result.Existing:
		fmt.Fprintf(out, "%s: submitted before as task %s\n", c.Key, result.TaskID)
	default:
		fmt.Fprintf(out, "%s: submitted as task %s\n", c.Key, result.TaskID)
	}
	return nil
}

func readData(text string) (json.RawMessage, error) {
	data, err := []byte(text), error(nil)
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		data, err = io.ReadAll(os.Stdin)
	case text[0] == '@':
		data, err = os.ReadFile(text[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("read --data: %w", err)
	}
	if !json.Valid(data) {
		return nil, errors.New("--data is not JSON; a file is named with @ before it")
	}
	return data, nil
}

type addCommand struct {
	Source string   `default:"answers" help:"Source of the tasks."`
	IDs    []string `arg:"" name:"task-id" help:"The provider's task ids."`
}

func (c addCommand) Run(ctx context.Context, s *settings, out output) error {
	if _, err := s.reconciled(c.Source); err != nil {
		return err // nobody would ever ask for them
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	added, err := tasks.Register(ctx, conn, c.Source, c.IDs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "registered %d tasks of %d; the others were known\n", added, len(c.IDs))
	return nil
}

type listCommand struct {
	Source             string        `help:"Only this source's."`
	OlderThan          time.Duration `help:"Only those submitted longer ago."`
	NeedsInvestigation bool          `help:"Only those past the horizon."`
	All                bool          `help:"Those with a result too."`
	Limit              int           `default:"100" help:"Most tasks listed, the oldest first."`
	JSON               bool          `help:"One JSON object a line."`
}

func (c listCommand) Run(ctx context.Context, s *settings, out output) error {
	if err := checkList(c.Limit, c.OlderThan); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	list, err := tasks.List(ctx, conn, tasks.Filter{
		Source: c.Source, Settled: c.All, NeedsInvestigation: c.NeedsInvestigation, OlderThan: c.OlderThan, Limit: c.Limit + 1,
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := s.checkSource(c.Source); err != nil {
			return err
		}
	}
	list, more := limited(list, c.Limit)
	if c.JSON {
		return printJSON(out, list)
	}
	table := newTable(out, "SOURCE", "TASK", "KEY", "SUBMITTED", "POLLS", "LAST RESULT", "STATE")
	for _, t := range list {
		state := "open"
		switch {
		case t.SettledAt != nil:
			state = "has its result"
		case t.NeedsInvestigationAt != nil:
			state = "needs investigation"
		}
		table.row(t.Source, or(t.TaskID, "(not known yet)"), or(t.IdempotencyKey, "-"), t.CreatedAt, t.Polls, or(t.LastPollResult, "-"), state)
	}
	return table.end(more)
}

func printJSON[T any](out io.Writer, list []T) error {
	encoder := json.NewEncoder(out)
	for _, entry := range list {
		if err := encoder.Encode(entry); err != nil {
			return err
		}
	}
	return nil
}

func or(text *string, otherwise string) string {
	if text == nil || *text == "" {
		return otherwise
	}
	return *text
}

type statusCommand struct {
	Source string `default:"answers" help:"Source to look at."`
}

// errNotIn makes the exit status say what the output says.
var errNotIn = errors.New("not everything is in")

func (c statusCommand) Run(ctx context.Context, s *settings, out output) error {
	client, err := s.provider(c.Source)
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	there, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if _, err := tasks.Settle(ctx, conn, c.Source); err != nil {
		return err
	}
	here, err := tasks.Count(ctx, conn, c.Source, 0, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "here: %d submitted tasks have no result\nat the provider: %d queued, %d processing\n",
		here.Open, there.QueuedTasks, there.ProcessingTasks)
	if here.Open > 0 || there.QueuedTasks > 0 || there.ProcessingTasks > 0 {
		return errNotIn
	}
	fmt.Fprintln(out, "everything is in")
	return nil
}

type cancelQueuedCommand struct {
	Source string `default:"answers" help:"Source whose provider is to stop."`
}

func (c cancelQueuedCommand) Run(ctx context.Context, s *settings, out output) error {
	client, err := s.provider(c.Source)
	if err != nil {
		return err
	}
	if err := client.CancelQueued(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "the tasks that had not started were removed; none of them is charged")
	return nil
}

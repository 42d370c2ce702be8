package catchwater

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
)

func (c inboxRetryCommand) Run(ctx context.Context, s *settings, out output) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	told := make(map[int64]string)
	var failed error
	for _, id := range c.IDs {
		if told[id], err = s.readAgain(ctx, conn, id); err != nil {
			told[id], failed = "stays as it was: "+err.Error(), errors.New("not every row could be read again")
		}
	}
	retried, err := inbox.Retry(ctx, conn, c.IDs)
	if err != nil {
		return err
	}
	for _, id := range c.IDs {
		switch {
		case told[id] != "":
			fmt.Fprintf(out, "row %d %s\n", id, told[id])
		case slices.Contains(retried, id):
			fmt.Fprintf(out, "row %d will be processed again\n", id)
		default:
			fmt.Fprintf(out, "row %d is not in quarantine; nothing was done\n", id)
		}
	}
	return failed
}

// readAgain reads a row that was refused at its receipt by the source's settings
// as they are now. What it holds is stored as if it came now, under its own keys,
// and the row is done with. It returns what became of the row, or nothing when
// it is no such row.
func (s *settings) readAgain(ctx context.Context, conn *pgx.Conn, id int64) (said string, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		refused, err := inbox.Refusals(ctx, tx, []int64{id})
		if err != nil || len(refused) == 0 {
			return err
		}
		row := &refused[0]
		configured, err := s.source(row.Source)
		if err != nil {
			return err
		}
		deliveries, still, err := identify(configured, row)
		if err != nil {
			return err
		}
		if still != "" {
			said = "still cannot be identified: " + still + "; mend the source's settings first. Nothing was done"
			return nil
		}
		said, err = settleRefused(ctx, tx, id, deliveries)
		return err
	})
	return said, err
}

// settleRefused stores what a refused row turned out to hold.
func settleRefused(ctx context.Context, tx pgx.Tx, id int64, deliveries []inbox.Delivery) (said string, err error) {
	if len(deliveries) == 0 {
		return "is a test delivery, and was let go", inbox.Done(ctx, tx, []int64{id})
	}
	results, err := inbox.NewStore(tx, 0).Insert(ctx, deliveries)
	if err != nil {
		return "", err
	}
	stored := 0
	for i, result := range results {
		switch {
		case result.Err != nil:
			return "", result.Err
		case result.ID == id: // its body's hash is its key now
			return "will be processed under the key that it has", inbox.Release(ctx, tx, id, deliveries[i])
		case result.Outcome == inbox.Stored:
			stored++
		}
	}
	return fmt.Sprintf("was read again: %d events, %d of them new", len(results), stored), inbox.Done(ctx, tx, []int64{id})
}

// identify reads what a refused row holds; still says why that is not to be had.
func identify(s *source.Source, row *inbox.Refused) (deliveries []inbox.Delivery, still string, err error) {
	if row.Body == nil {
		return nil, "", errors.New("its payload has been dropped")
	}
	inboxRow := row.Row()
	content, err := inboxRow.Content()
	if err != nil {
		return nil, "", err
	}
	events := s.Events(row.Headers, row.Body, content)
	if len(events) == 1 && events[0].Quarantine != "" {
		return nil, events[0].Quarantine, nil
	}
	for _, event := range events {
		if event.Test {
			continue
		}
		deliveries = append(deliveries, inbox.Delivery{
			Source: row.Source, EventKey: event.EventKey, EventType: event.EventType, Subject: event.Subject, OccurredAt: event.OccurredAt,
			Origin: inbox.FromImport, Body: event.Body, Headers: s.Keep(row.Headers), Traceparent: row.Traceparent, Quarantine: event.Quarantine,
		})
	}
	return deliveries, "", nil
}

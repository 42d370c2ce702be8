package answers

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/projection"
)

//go:embed sql/apply.sql
var applySQL string

// Projection applies inbox rows to the table answers.
type Projection struct{}

// Apply stores what the rows say, in one statement. A row that says nothing
// usable is left out with its (permanent) error.
func (Projection) Apply(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (projection.Result, error) {
	out := projection.Result{Failed: make(map[int64]error), Changes: make(map[int64]projection.Change, len(rows))}
	var in columns
	for _, row := range rows {
		result, err := Decode(row)
		if err != nil {
			out.Failed[row.ID] = err
			continue
		}
		in.add(result)
		out.Changes[row.ID] = projection.Change{Status: result.Status}
	}
	if len(in.source) == 0 {
		return out, nil
	}
	stored, err := tx.Query(ctx, applySQL, in.source, in.taskID, in.jobKey, in.idempotencyKey, in.taskType, in.status,
		in.createdAt, in.credits, in.response, in.repaired, in.inboxID)
	if err == nil {
		var id int64
		_, err = pgx.ForEachRow(stored, []any{&id}, func() error {
			change := out.Changes[id]
			change.Changed = true
			out.Changes[id] = change
			return nil
		})
	}
	if err != nil {
		return projection.Result{}, fmt.Errorf("store %d answers: %w", len(in.source), err)
	}
	return out, nil
}

// columns holds results the way unnest takes them.
type columns struct {
	source, taskID, jobKey, status              []string
	idempotencyKey, taskType, credits, response []*string
	createdAt                                   []time.Time
	repaired                                    []bool
	inboxID                                     []int64
}

func (c *columns) add(r Result) {
	c.source = append(c.source, r.Source)
	c.taskID = append(c.taskID, r.TaskID)
	c.jobKey = append(c.jobKey, r.JobKey)
	c.status = append(c.status, r.Status)
	c.idempotencyKey = append(c.idempotencyKey, orNull(r.IdempotencyKey))
	c.taskType = append(c.taskType, orNull(r.TaskType))
	c.credits = append(c.credits, orNull(r.CreditsCharged))
	c.response = append(c.response, orNull(string(r.Response)))
	c.createdAt = append(c.createdAt, r.CreatedAt)
	c.repaired = append(c.repaired, r.Repaired)
	c.inboxID = append(c.inboxID, r.InboxID)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

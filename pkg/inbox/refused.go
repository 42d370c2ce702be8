package inbox

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/refused.sql
	refusedSQL string
	//go:embed sql/release.sql
	releaseSQL string
)

// Refused is a row that was quarantined at its receipt, since its body did not
// say what it is: it stands under its body's hash, and no processor can make
// anything of it. It has to be read again, with settings that fit.
type Refused struct {
	ID          int64
	Source      string
	ReceivedAt  time.Time
	Traceparent string
	Body        []byte // nil when the payload is gone
	Headers     http.Header
}

// Row is the refused row, as far as its body goes.
func (r *Refused) Row() Row { return Row{Body: r.Body} }

// Refusals returns those among rows that were quarantined at their receipt,
// locked until tx ends.
func Refusals(ctx context.Context, tx pgx.Tx, ids []int64) ([]Refused, error) {
	rows, err := tx.Query(ctx, refusedSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("read rows that were refused at their receipt: %w", err)
	}
	refused, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Refused, error) {
		var r Refused
		var traceparent *string
		var headers map[string]string
		err := row.Scan(&r.ID, &r.Source, &r.ReceivedAt, &traceparent, &r.Body, &headers)
		r.Traceparent, r.Headers = orEmpty(traceparent), make(http.Header, len(headers))
		for name, value := range headers {
			r.Headers.Set(name, value)
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read rows that were refused at their receipt: %w", err)
	}
	return refused, nil
}

// Release makes a refused row due whose own key turns out to be right, with what
// is now known of it.
func Release(ctx context.Context, tx pgx.Tx, id int64, d Delivery) error {
	if _, err := tx.Exec(ctx, releaseSQL, id, orNull(d.EventType), orNull(d.Subject), timeOrNull(d.OccurredAt)); err != nil {
		return fmt.Errorf("release row %d: %w", id, err)
	}
	return nil
}

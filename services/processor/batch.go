package processor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// Projection makes something of the rows of one or more sources.
type Projection interface {
	// Apply applies all rows within tx, except those that it names with the
	// error of each. An error of its own means that nothing was applied; when
	// the database refused a value, the rows are tried again in halves until
	// the one at fault stands alone.
	Apply(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (failed map[int64]error, err error)
}

// none is the projection of sources of which nothing is to be made.
type none struct{}

func (none) Apply(context.Context, pgx.Tx, []inbox.Row) (map[int64]error, error) { return nil, nil }

// Beginner starts transactions.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// batcher processes one batch of rows in one transaction: claim, apply, mark.
type batcher struct {
	db          Beginner
	projections map[string]Projection // by source
	timeout     time.Duration
	maxAttempts int
	retryBase   time.Duration
	retryMax    time.Duration
	metrics     *metrics
}

// claim locks rows within a transaction.
type claim func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error)

// outcome is what became of a batch that was committed.
type outcome struct {
	rows     []inbox.Row
	failures []inbox.Failure
}

// run processes what the claim returns. After an error nothing has changed,
// or, where the commit itself failed, all of it may have.
func (b *batcher) run(ctx context.Context, claim claim, after func(context.Context, pgx.Tx, []inbox.Row) error) (outcome, error) {
	// A batch under way is finished when the service stops; the time-out bounds it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
	defer cancel()
	tx, err := b.db.Begin(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("begin a batch: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing

	began := time.Now()
	rows, err := claim(ctx, tx)
	if err != nil {
		return outcome{}, err
	}
	if after != nil {
		if err := after(ctx, tx, rows); err != nil {
			return outcome{}, err
		}
	}
	if len(rows) == 0 {
		return outcome{}, nil
	}
	failures, err := b.applyAll(ctx, tx, rows)
	if err != nil {
		return outcome{}, err
	}
	if err := settle(ctx, tx, rows, failures); err != nil {
		return outcome{}, err
	}
	if err := tx.Commit(ctx); err != nil {
		return outcome{}, fmt.Errorf("commit a batch of %d rows: %w", len(rows), err)
	}
	b.metrics.processed(rows, failures, time.Since(began), time.Now())
	return outcome{rows: rows, failures: failures}, nil
}

// settle writes what has become of each row.
func settle(ctx context.Context, tx pgx.Tx, rows []inbox.Row, failures []inbox.Failure) error {
	bad := make(map[int64]bool, len(failures))
	for _, failure := range failures {
		bad[failure.ID] = true
	}
	good := make([]int64, 0, len(rows))
	for _, row := range rows {
		if !bad[row.ID] {
			good = append(good, row.ID)
		}
	}
	slices.Sort(good)
	if err := inbox.Done(ctx, tx, good); err != nil {
		return err
	}
	return inbox.Fail(ctx, tx, failures)
}

// applyAll applies each source's projection to its rows.
func (b *batcher) applyAll(ctx context.Context, tx pgx.Tx, rows []inbox.Row) ([]inbox.Failure, error) {
	byProjection := make(map[Projection][]inbox.Row)
	var failures []inbox.Failure
	for _, row := range rows {
		projection, ok := b.projections[row.Source]
		if !ok {
			failures = append(failures, b.failure(row, fmt.Errorf("source %q is not in this processor's configuration", row.Source)))
			continue
		}
		byProjection[projection] = append(byProjection[projection], row)
	}
	for projection, group := range byProjection {
		failed, err := b.apply(ctx, tx, projection, group)
		if err != nil {
			return nil, err
		}
		failures = append(failures, failed...)
	}
	return failures, nil
}

// apply applies a projection under a savepoint, and in halves where the
// database refuses a value, so that a bad row fails alone.
func (b *batcher) apply(ctx context.Context, tx pgx.Tx, projection Projection, rows []inbox.Row) ([]inbox.Failure, error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("set a savepoint: %w", err)
	}
	failed, err := protect(ctx, savepoint, projection, rows)
	if err == nil {
		if err := savepoint.Commit(ctx); err != nil {
			return nil, fmt.Errorf("release a savepoint: %w", err)
		}
		var failures []inbox.Failure
		for _, row := range rows {
			if rowErr := failed[row.ID]; rowErr != nil {
				failures = append(failures, b.failure(row, rowErr))
			}
		}
		return failures, nil
	}
	if rollbackErr := savepoint.Rollback(ctx); rollbackErr != nil {
		return nil, errors.Join(err, fmt.Errorf("roll back to a savepoint: %w", rollbackErr))
	}
	var panicked *panicError
	if !inbox.IsRowError(err) && !errors.As(err, &panicked) {
		return nil, err
	}
	if len(rows) == 1 {
		return []inbox.Failure{b.failure(rows[0], err)}, nil
	}
	left, err := b.apply(ctx, tx, projection, rows[:len(rows)/2])
	if err != nil {
		return nil, err
	}
	right, err := b.apply(ctx, tx, projection, rows[len(rows)/2:])
	return append(left, right...), err
}

// panicError is a projection that panicked: a defect that one row brings to
// light, which must not stop the others.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("the projection panicked: %v", e.value) }

func protect(ctx context.Context, tx pgx.Tx, projection Projection, rows []inbox.Row) (failed map[int64]error, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return projection.Apply(ctx, tx, rows)
}

// failure decides what is to become of a row whose attempt failed.
func (b *batcher) failure(row inbox.Row, err error) inbox.Failure {
	var permanent *inbox.PermanentError
	if errors.As(err, &permanent) || row.Attempts+1 >= b.maxAttempts {
		return inbox.Failure{ID: row.ID, Err: err, Quarantine: true}
	}
	return inbox.Failure{ID: row.ID, Err: err, RetryIn: b.backOff(row.Attempts)}
}

// backOff is the wait after an attempt that was preceded by so many others.
func (b *batcher) backOff(attempts int) time.Duration {
	wait := b.retryMax
	if attempts < 30 {
		wait = min(b.retryBase<<attempts, b.retryMax)
	}
	return wait - rand.N(wait/2+1)
}

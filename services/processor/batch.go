package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// Beginner starts transactions.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// batcher processes one batch of rows in one transaction: claim, apply, mark.
type batcher struct {
	db          Beginner
	projections map[string]projection.Projection // by source
	plan        *effects.Plan
	onEffects   func() // called when a batch with effects has been committed
	timeout     time.Duration
	maxAttempts int
	retryBase   time.Duration
	retryMax    time.Duration
	metrics     *metrics
	tracer      *tracing.Tracer
}

// claim locks rows within a transaction.
type claim func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error)

// outcome is what became of a batch that was committed; of the rows that are
// neither among the failures nor waiting: processed.
type outcome struct {
	rows     []inbox.Row
	failures []inbox.Failure
	waiting  []inbox.Wait
	effects  int // written down, to be performed
}

// add joins what became of other rows of the batch.
func (o *outcome) add(other outcome) {
	o.rows = append(o.rows, other.rows...)
	o.failures = append(o.failures, other.failures...)
	o.waiting = append(o.waiting, other.waiting...)
	o.effects += other.effects
}

// run processes what the claim returns, and says via what it came. After an
// error nothing has changed, or, where the commit itself failed, all of it may
// have.
func (b *batcher) run(ctx context.Context, via string, claim claim, after func(context.Context, pgx.Tx, []inbox.Row) error) (outcome, error) {
	ctx = context.WithoutCancel(ctx) // a batch under way is finished when the service stops; the time-out bounds it
	began := time.Now()
	result, err := b.attempt(ctx, via, claim, after)
	if err != nil && len(result.rows) == 1 && (errors.Is(err, context.DeadlineExceeded) || ofOneRow(err)) {
		result, err = b.failAlone(ctx, result.rows[0], err)
	}
	if err != nil {
		return outcome{}, err
	}
	if result.effects > 0 {
		b.onEffects()
	}
	if len(result.rows) > 0 {
		b.metrics.processed(result, time.Since(began), time.Now())
	}
	return result, nil
}

// attempt is one transaction. After an error its outcome is of the rows that it
// had claimed, and no more.
func (b *batcher) attempt(ctx context.Context, via string, claim claim, after func(context.Context, pgx.Tx, []inbox.Row) error) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	began := time.Now()
	tx, err := b.db.Begin(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("begin a batch: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing

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
	ctx, span := beginBatch(ctx, b.tracer, via, rows, began)
	result, err := b.process(ctx, tx, rows, span)
	span.end(result, err)
	if err != nil {
		return outcome{rows: rows}, err
	}
	return result, nil
}

// failAlone counts an attempt on a row that, alone in its batch, brought the whole
// transaction down: rolled back and no more it would be tried for ever.
func (b *batcher) failAlone(ctx context.Context, row inbox.Row, cause error) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if !ofOneRow(cause) {
		cause = fmt.Errorf("not processed within %s: %w", b.timeout, cause)
	}
	failures := []inbox.Failure{b.failure(row, cause)}
	for {
		var rows []inbox.Row
		held := false
		err := pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) (err error) {
			if rows, err = inbox.ClaimIDs(ctx, tx, []int64{row.ID}); err != nil {
				return err
			}
			if len(rows) == 1 {
				return inbox.Fail(ctx, tx, failures)
			}
			claimable, err := inbox.Claimable(ctx, tx, []int64{row.ID})
			held = claimable[row.ID] // by the session that was given up, as likely as not
			return err
		})
		if err != nil {
			return outcome{}, errors.Join(cause, err)
		}
		if len(rows) == 1 {
			return outcome{rows: rows, failures: failures}, nil
		}
		if !held {
			return outcome{}, nil // somebody else has dealt with it
		}
		select {
		case <-ctx.Done():
			return outcome{}, fmt.Errorf("%w; and its row stays locked", cause)
		case <-time.After(sessionEnd):
		}
	}
}

// sessionEnd is between two looks whether the server has ended a session that was
// given up.
const sessionEnd = 20 * time.Millisecond

// process applies and marks claimed rows, and commits.
func (b *batcher) process(ctx context.Context, tx pgx.Tx, rows []inbox.Row, span *batchSpan) (outcome, error) {
	began := time.Now()
	result, err := b.applyAll(ctx, tx, rows)
	if err != nil {
		return outcome{}, err
	}
	span.projected(began)
	if err := settle(ctx, tx, result); err != nil {
		return outcome{}, err
	}
	if err := tx.Commit(ctx); err != nil {
		return outcome{}, fmt.Errorf("commit a batch of %d rows: %w", len(rows), err)
	}
	return result, nil
}

// settle writes what has become of each row.
func settle(ctx context.Context, tx pgx.Tx, result outcome) error {
	open := make(map[int64]bool, len(result.failures)+len(result.waiting))
	for _, failure := range result.failures {
		open[failure.ID] = true
	}
	for _, wait := range result.waiting {
		open[wait.ID] = true
	}
	good := make([]int64, 0, len(result.rows))
	for _, row := range result.rows {
		if !open[row.ID] {
			good = append(good, row.ID)
		}
	}
	slices.Sort(good)
	if err := inbox.Done(ctx, tx, good); err != nil {
		return err
	}
	if err := inbox.PutOff(ctx, tx, result.waiting); err != nil {
		return err
	}
	return inbox.Fail(ctx, tx, result.failures)
}

// applyAll applies each source's projection to its rows.
func (b *batcher) applyAll(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (outcome, error) {
	// One order for everybody, for projections as for the halves of each: what two
	// batches have in common they then lock in the same order.
	slices.SortStableFunc(rows, func(a, b inbox.Row) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Subject, b.Subject))
	})
	byProjection := make(map[projection.Projection][]inbox.Row)
	var order []projection.Projection
	var result outcome
	for _, row := range rows {
		p, ok := b.projections[row.Source]
		if !ok {
			// Another processor may know it, or this one after its restart: no attempt.
			result.add(outcome{rows: []inbox.Row{row}, waiting: []inbox.Wait{{
				ID: row.ID, For: fmt.Sprintf("source %s to be in the processor's sources file", row.Source), Pending: true,
			}}})
			continue
		}
		if byProjection[p] == nil {
			order = append(order, p)
		}
		byProjection[p] = append(byProjection[p], row)
	}
	for _, p := range order {
		applied, err := b.apply(ctx, tx, p, byProjection[p])
		if err != nil {
			return outcome{}, err
		}
		result.add(applied)
	}
	return result, nil
}

// apply applies a projection, and writes down what is to follow from it, under a
// savepoint; and in halves where the database refuses a value, or a handler an
// event, so that a bad row fails alone.
func (b *batcher) apply(ctx context.Context, tx pgx.Tx, p projection.Projection, rows []inbox.Row) (outcome, error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("set a savepoint: %w", err)
	}
	applied, written, err := b.protect(ctx, savepoint, p, rows)
	if err == nil {
		if err := savepoint.Commit(ctx); err != nil {
			return outcome{}, fmt.Errorf("release a savepoint: %w", err)
		}
		result := b.outcomeOf(rows, applied)
		result.effects = written
		return result, nil
	}
	if rollbackErr := savepoint.Rollback(ctx); rollbackErr != nil {
		return outcome{}, errors.Join(err, fmt.Errorf("roll back to a savepoint: %w", rollbackErr))
	}
	if !inbox.IsRowError(err) && !ofOneRow(err) {
		return outcome{}, err
	}
	if len(rows) == 1 {
		return outcome{rows: rows, failures: []inbox.Failure{b.failure(rows[0], err)}}, nil
	}
	left, err := b.apply(ctx, tx, p, rows[:len(rows)/2])
	if err != nil {
		return outcome{}, err
	}
	right, err := b.apply(ctx, tx, p, rows[len(rows)/2:])
	left.add(right)
	return left, err
}

// ofOneRow says whether an error came of what was made of one row, by a projection
// that panicked or a handler.
func ofOneRow(err error) bool {
	var panicked *panicError
	var refused *effects.HandlerError
	return errors.As(err, &panicked) || errors.As(err, &refused)
}

// outcomeOf is what a projection has made of rows.
func (b *batcher) outcomeOf(rows []inbox.Row, applied projection.Result) outcome {
	result := outcome{rows: rows}
	for _, row := range rows {
		if err := applied.Failed[row.ID]; err != nil {
			result.failures = append(result.failures, b.failure(row, err))
		} else if what, waits := applied.Waiting[row.ID]; waits {
			result.waiting = append(result.waiting, inbox.Wait{ID: row.ID, For: what})
		}
	}
	return result
}

// panicError is a projection, or a handler, that panicked: a defect that one row
// brings to light, which must not stop the others.
type panicError struct {
	who   string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.who, e.value) }

// protect applies the projection, and writes down the effects; it returns how many
// those are.
func (b *batcher) protect(ctx context.Context, tx pgx.Tx, p projection.Projection, rows []inbox.Row) (applied projection.Result, written int, err error) {
	who := "the projection"
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{who: who, value: value, stack: debug.Stack()}
		}
	}()
	if applied, err = p.Apply(ctx, tx, rows); err != nil {
		return applied, 0, err
	}
	who = "a handler"
	written, err = b.plan.Write(ctx, tx, rows, applied)
	return applied, written, err
}

// failure decides what is to become of a row whose attempt failed.
func (b *batcher) failure(row inbox.Row, err error) inbox.Failure {
	var permanent *inbox.PermanentError
	if errors.As(err, &permanent) || row.Attempts+1 >= b.maxAttempts {
		return inbox.Failure{ID: row.ID, Err: err, Quarantine: true}
	}
	return inbox.Failure{ID: row.ID, Err: err, RetryIn: backOff(b.retryBase, b.retryMax, row.Attempts)}
}

// backOff is the wait after an attempt that was preceded by so many others: base,
// doubled by each, up to most, less a random part of up to half.
func backOff(base, most time.Duration, attempts int) time.Duration {
	wait := most
	if attempts < 30 && base<<attempts>>attempts == base {
		wait = min(base<<attempts, most)
	}
	return wait - rand.N(wait/2+1)
}

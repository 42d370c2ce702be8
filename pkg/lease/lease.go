// Package lease lets one of several processes lead.
//
// A lease is a row that says who leads and until when. Whoever wants to lead
// tries to take the row; that works when it has expired or is one's own. The
// holder renews it every third of its life, and stops leading when another has
// it, or when a tenth of its life is left and no renewal has succeeded: that is
// before anybody else can take it. A holder that stops gives the row back, so
// that a rolling restart does not leave the duty undone; one that is killed is
// succeeded when the lease runs out.
//
//	taken ──renewed every ⅓ life──▶ taken
//	  │ not renewed for ⁹⁄₁₀ life, or found with another
//	  ▼
//	stopped leading ──▶ given back ──▶ tried for again
//
// No lock of a session is held, so it works behind a transaction pooler. The
// expiry is judged by the database's clock alone, so clocks need not agree; the
// holder counts its own time from before it asked, on a clock that only goes
// forward. A process that is suspended may still find itself leading for a
// moment when it wakes up: what a leader does must be harmless to do twice.
package lease

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/take.sql
	takeSQL string
	//go:embed sql/give_back.sql
	giveBackSQL string
)

// DB is what the package needs of a pool.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Lease is one process's part in an election. Its fields are set before Lead.
type Lease struct {
	DB     DB
	Name   string        // of the duty
	Holder string        // unique among the processes
	Life   time.Duration // how long a dead holder keeps others waiting; a second or more
	Log    *slog.Logger
	// Asked is told how each request for the lease went, which is one every third
	// of its life: whether the database answers. It may be nil.
	Asked func(error)
}

// Lead runs lead whenever this process holds the lease, with a context that
// ends when it no longer does, until ctx ends.
func (l *Lease) Lead(ctx context.Context, lead func(context.Context)) {
	for ctx.Err() == nil {
		asked := time.Now()
		if taken, err := l.take(ctx); err == nil && taken {
			l.lead(ctx, asked, lead)
			continue
		}
		sleep(ctx, l.Life/3)
	}
}

// lead renews the lease while lead runs.
func (l *Lease) lead(ctx context.Context, asked time.Time, lead func(context.Context)) {
	l.Log.InfoContext(ctx, "leading", slog.String("lease", l.Name))
	leading, stop := context.WithCancel(ctx)
	defer stop()
	expiry := time.AfterFunc(l.left(asked), stop)
	defer expiry.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		lead(leading)
	}()
	for sleep(leading, l.Life/3) {
		asked := time.Now()
		switch taken, err := l.take(leading); {
		case err != nil: // tried again while there is time
		case taken:
			expiry.Reset(l.left(asked))
		default:
			stop()
		}
	}
	if ctx.Err() == nil {
		l.Log.WarnContext(ctx, "no longer leading: the lease was not renewed in time, or another has it", slog.String("lease", l.Name))
	}
	<-done
	giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Life/3)
	defer cancel()
	_, _ = l.DB.Exec(giveBack, giveBackSQL, l.Name, l.Holder) // else it expires
}

// left is how long one may lead on a lease that was asked for at a time.
func (l *Lease) left(asked time.Time) time.Duration {
	return l.Life*9/10 - time.Since(asked)
}

func (l *Lease) take(ctx context.Context) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, l.Life/3)
	defer cancel()
	tag, err := l.DB.Exec(asking, takeSQL, l.Name, l.Holder, l.Life)
	if err != nil {
		err = fmt.Errorf("take the lease %q: %w", l.Name, err)
	}
	if l.Asked != nil && ctx.Err() == nil {
		l.Asked(err)
	}
	return err == nil && tag.RowsAffected() == 1, err
}

// sleep returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

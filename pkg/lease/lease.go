// Package lease lets one of several processes lead.
//
// A lease is a row that says who leads and until when. Whoever wants to lead
// tries to take the row; that works when it has expired or is one's own. The
// holder renews it every third of its life and stops leading as soon as a
// renewal fails, or has not succeeded within the lease's life: that is before
// anybody else can take it. A holder that stops gives the row back, so a rolling restart does not
// leave the duty undone; one that is killed is succeeded when the lease runs
// out. No session-level lock is used, so it works behind a transaction pooler.
//
// All times are the database's, so clocks need not agree.
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	takeSQL = `
insert into leases (name, holder, expires_at) values ($1, $2, now() + $3::interval)
on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
where leases.holder = excluded.holder or leases.expires_at < now()`
	giveBackSQL = `update leases set expires_at = '-infinity' where name = $1 and holder = $2`
)

// DB is what the package needs of a pool.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Lease is one process's part in an election.
type Lease struct {
	DB     DB
	Name   string        // of the duty
	Holder string        // unique among the processes
	Life   time.Duration // at least a second
	Log    *slog.Logger
}

// Lead runs lead whenever this process holds the lease, with a context that
// ends when it no longer does, until ctx ends.
func (l *Lease) Lead(ctx context.Context, lead func(context.Context)) {
	for ctx.Err() == nil {
		if taken, err := l.take(ctx); err != nil {
			l.Log.DebugContext(ctx, "the lease could not be asked for", slog.String("lease", l.Name), slog.Any("error", err))
		} else if taken {
			l.lead(ctx, lead)
			continue
		}
		sleep(ctx, l.Life/3)
	}
}

// lead renews the lease while lead runs.
func (l *Lease) lead(ctx context.Context, lead func(context.Context)) {
	l.Log.InfoContext(ctx, "leading", slog.String("lease", l.Name))
	leading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lead(leading)
	}()
	for renewed := time.Now(); leading.Err() == nil; {
		sleep(leading, l.Life/3)
		taken, err := l.take(leading)
		switch {
		case err == nil && taken:
			renewed = time.Now()
		case err == nil || time.Since(renewed) > l.Life*2/3:
			l.Log.WarnContext(ctx, "no longer leading", slog.String("lease", l.Name), slog.Any("error", err))
			stop()
		}
	}
	stop()
	<-done
	giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Life/3)
	defer cancel()
	_, _ = l.DB.Exec(giveBack, giveBackSQL, l.Name, l.Holder) // else it expires
}

func (l *Lease) take(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Life/3)
	defer cancel()
	tag, err := l.DB.Exec(ctx, takeSQL, l.Name, l.Holder, l.Life)
	if err != nil {
		return false, fmt.Errorf("take the lease %q: %w", l.Name, err)
	}
	return tag.RowsAffected() == 1, nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

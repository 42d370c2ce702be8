package reconciler

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/lease"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

const (
	// databaseTimeout bounds each statement about a poll.
	databaseTimeout = 10 * time.Second
	// stopGrace is how long polls under way have to end when the service stops. One
	// that is cut off loses nothing: its task is handed out again.
	stopGrace = 5 * time.Second
)

// reconciler is the running service.
type reconciler struct {
	cfg       Config
	log       *slog.Logger
	db        *pgxpool.Pool
	store     *inbox.Store
	bus       *bus.Bus
	consumer  *bus.Consumer
	health    *service.Health
	metrics   *metrics
	providers []*provider
	tracer    *tracing.Tracer
	// databaseAway is kept by databaseAnswers, which one loop calls.
	databaseAway bool
	own          chan job // polls that the leader hands to this process without the broker
}

// Run reconciles until ctx ends, then finishes the polls under way.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	log := cfg.Logger
	if log == nil {
		var err error
		if log, err = cfg.Log.New("reconciler", os.Stderr); err != nil {
			return err
		}
	}
	sources, err := source.Load(cfg.Path)
	if err != nil {
		return err
	}
	providers, err := openProviders(sources, cfg.Workers, log)
	if err != nil {
		return err
	}
	cfg.Database.MaxConns = max(cfg.Database.MaxConns, int32(cfg.Workers)+4) // one a worker, and the leader's
	pool, err := postgres.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	tracer, err := tracing.Start(ctx, cfg.Tracing, "reconciler", log)
	if err != nil {
		return err
	}
	defer tracer.Stop()
	broker, err := bus.Connect(bus.Options{
		URL: cfg.Broker.URL, Credentials: cfg.Credentials, Replicas: cfg.Replicas, Name: "catchwater reconciler", Log: log, Tracer: tracer,
	})
	if err != nil {
		return err
	}
	defer broker.Close(0)

	registry, health := service.NewRegistry(), service.NewHealth()
	r := &reconciler{
		cfg: cfg, log: log, db: pool, store: inbox.NewStore(pool, cfg.Grace), bus: broker,
		consumer: broker.NewConsumer(bus.Polls(), 2*cfg.Workers), health: health, metrics: newMetrics(registry, providers),
		providers: providers, own: make(chan job), tracer: tracer,
	}
	group, ctx := errgroup.WithContext(ctx)
	// Health and metrics are there until everything in hand is finished.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAround()
	group.Go(func() error { return service.ServeHealth(around, cfg.HealthListen, health, registry, log) })
	context.AfterFunc(ctx, func() { health.Hold("stop", "the service is stopping") })
	group.Go(func() error {
		defer stopAround()
		if !postgres.AwaitSchema(ctx, pool, health, log) {
			return nil
		}
		health.Release("start")
		log.Info("ready", slog.Int("sources", len(providers)))
		r.run(ctx)
		return nil
	})
	err = group.Wait()
	log.Info("stopped")
	return err
}

// run starts the loops and returns when all of them have stopped.
func (r *reconciler) run(ctx context.Context) {
	polling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cut) })()

	host, _ := os.Hostname() // only to be read by people
	election := lease.Lease{
		DB: r.db, Name: "reconciler", Holder: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]), Life: r.cfg.Lease, Log: r.log,
		Asked: r.databaseAnswers,
	}
	var loops sync.WaitGroup
	loops.Go(func() { r.consumer.Run(ctx) })
	loops.Go(func() { election.Lead(ctx, r.lead) })
	loops.Go(func() { r.heedKeys(ctx) })
	for range r.cfg.Workers {
		loops.Go(func() { r.work(ctx, polling) })
	}
	loops.Wait()
}

// databaseAnswers keeps the service unready while Postgres is away, as the
// requests for the lease, which every reconciler makes all the time, show it.
func (r *reconciler) databaseAnswers(err error) {
	const hold = "database"
	away := r.databaseAway
	switch r.databaseAway = err != nil; {
	case err != nil:
		if r.health.Hold(hold, err.Error()); !away {
			r.log.Warn("Postgres does not answer; nothing is asked for until it does", slog.Any("error", err))
		}
	case away:
		r.health.Release(hold)
		r.log.Info("Postgres answers again")
	}
}

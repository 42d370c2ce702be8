package reconciler

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/lease"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/pkg/source"
)

// asked is a source whose provider can be asked.
type asked struct {
	source *source.Source
	client *answerline.Client
}

// reconciler is the running service.
type reconciler struct {
	cfg      Config
	log      *slog.Logger
	db       *pgxpool.Pool
	store    *inbox.Store
	bus      *bus.Bus
	consumer *bus.Consumer
	metrics  *metrics
	asked    []*asked

	mu     sync.Mutex
	errors map[int64]int // polls in a row without an answer, by submitted task
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
	asked, err := openAsked(sources)
	if err != nil {
		return err
	}
	cfg.Database.MaxConns = max(cfg.Database.MaxConns, int32(cfg.Workers)+4) // one a worker, and the leader's
	pool, err := postgres.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	broker, err := bus.Connect(bus.Options{URL: cfg.Broker.URL, Credentials: cfg.Credentials, Name: "catchwater reconciler", Log: log})
	if err != nil {
		return err
	}
	defer broker.Close(0)

	registry, health := service.NewRegistry(), service.NewHealth()
	r := &reconciler{
		cfg: cfg, log: log, db: pool, store: inbox.NewStore(pool, cfg.Grace), bus: broker,
		consumer: broker.NewConsumer(bus.Polls(), 2*cfg.Workers), metrics: newMetrics(registry), asked: asked,
		errors: make(map[int64]int),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return service.ServeHealth(ctx, cfg.HealthListen, health, registry, log) })
	group.Go(func() error {
		if !postgres.AwaitSchema(ctx, pool, health, log) {
			return nil
		}
		health.Release("start")
		log.Info("ready", slog.Int("sources", len(asked)))
		r.run(ctx)
		return nil
	})
	err = group.Wait()
	log.Info("stopped")
	return err
}

// run starts the loops and returns when all of them have stopped.
func (r *reconciler) run(ctx context.Context) {
	host, _ := os.Hostname() // only to be read by people
	election := lease.Lease{
		DB: r.db, Name: "reconciler", Holder: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]), Life: r.cfg.Lease, Log: r.log,
	}
	var loops sync.WaitGroup
	loops.Go(func() { r.consumer.Run(ctx) })
	loops.Go(func() { election.Lead(ctx, r.lead) })
	for range r.cfg.Workers {
		loops.Go(func() { r.work(ctx) })
	}
	loops.Wait()
}

// openAsked makes a client for each source that can be asked.
func openAsked(sources *source.Config) ([]*asked, error) {
	var all []*asked
	for _, s := range sources.Sources {
		if s.Reconcile == nil {
			continue
		}
		key, err := source.ReadSecret(s.Reconcile.Token, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("source %q: reconcile.token: %w", s.Name, err)
		}
		all = append(all, &asked{source: s, client: &answerline.Client{
			BaseURL: s.Reconcile.BaseURL, Key: key, Timeout: s.Reconcile.Timeout, MaxBody: s.MaxBody,
		}})
	}
	return all, nil
}

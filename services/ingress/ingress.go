package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// maxHeaderBytes bounds a request's headers; past it net/http answers 431.
const maxHeaderBytes = 64 << 10

// announceWait is how long a stopping service waits for the broker to
// acknowledge what it was told.
const announceWait = 2 * time.Second

// Run receives deliveries until ctx ends, then finishes what it holds: the
// service goes unready, takes no more connections, answers the requests under
// way, and stops when all that it has acknowledged is committed.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	log := cfg.Logger
	if log == nil {
		var err error
		if log, err = cfg.Log.New("ingress", os.Stderr); err != nil {
			return err
		}
	}
	sources, err := source.Load(cfg.Path)
	if err != nil {
		return err
	}
	endpoints, err := openEndpoints(sources, log)
	if err != nil {
		return err
	}
	cfg.Database.MaxConns = max(cfg.Database.MaxConns, int32(cfg.Flushers)+1) // one a flusher, and the schema check
	pool, err := postgres.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer pool.Close()

	tracer, err := tracing.Start(ctx, cfg.Tracing, "ingress", log)
	if err != nil {
		return err
	}
	defer tracer.Stop()
	registry, health := service.NewRegistry(), service.NewHealth()
	memory := &budget{limit: cfg.BodyMemory}
	var batcher *batcher
	var broker *bus.Bus
	metrics := newMetrics(registry, cfg, slices.Collect(maps.Keys(endpoints)), present{
		queued: func() int { return len(batcher.queue) }, bodyBytes: memory.used.Load, connected: func() bool { return broker.Connected() },
	})
	broker, err = bus.Connect(bus.Options{
		URL: cfg.Broker.URL, Credentials: cfg.Credentials, Name: "catchwater ingress", Log: log, Tracer: tracer,
		OnPublishError: func(error) { metrics.announceFailures.Inc() },
	})
	if err != nil {
		return err
	}
	defer broker.Close(announceWait)
	batcher = newBatcher(inbox.NewStore(pool, cfg.Grace), cfg, metrics.flushed, tracer)
	defer batcher.stop()

	group, failed := errgroup.WithContext(ctx) // failed ends with ctx, and when a part fails
	schemaReady := make(chan struct{})
	h := &handler{
		endpoints: endpoints, batcher: batcher, announce: broker.Announce, memory: memory,
		answerTimeout: cfg.AnswerTimeout, retryAfter: retryAfterHeader(cfg.RetryAfter),
		ready: func() bool { return isClosed(schemaReady) }, draining: func() bool { return failed.Err() != nil }, metrics: metrics, log: log, tracer: tracer, now: time.Now,
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for deliveries on %s: %w", cfg.Listen, err)
	}
	server := newServer(cfg, h, log)

	// The loops around the server go on until it has drained.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAround()
	group.Go(func() error { return service.ServeHealth(around, cfg.HealthListen, health, registry, log) })
	group.Go(func() error {
		if !postgres.AwaitSchema(failed, pool, health, log) {
			return nil
		}
		close(schemaReady)
		log.Info("ready", slog.String("listen", listener.Addr().String()), slog.Int("sources", len(endpoints)))
		health.Release("start")
		return nil
	})
	for _, e := range endpoints {
		group.Go(func() error { e.keyring.Watch(around, cfg.SecretInterval); return nil })
	}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve deliveries on %s: %w", cfg.Listen, err)
		}
		return nil
	})
	group.Go(func() error {
		defer stopAround()
		<-failed.Done()
		health.Hold("stop", "the service is stopping")
		return drain(server, cfg, log)
	})
	err = group.Wait()
	log.Info("stopped")
	return err
}

// drain lets load balancers notice, then finishes the requests under way.
func drain(server *http.Server, cfg Config, log *slog.Logger) error {
	log.Info("stopping", slog.Duration("drain_delay", cfg.DrainDelay))
	time.Sleep(cfg.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), cfg.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
		return fmt.Errorf("finish the requests under way within %s: %w", cfg.DrainTimeout, err)
	}
	return nil
}

// openEndpoints reads every source's secrets.
func openEndpoints(sources *source.Config, log *slog.Logger) (map[string]endpoint, error) {
	endpoints := make(map[string]endpoint, len(sources.Sources))
	var errs []error
	for _, s := range sources.Sources {
		keyring, err := source.OpenKeyring(s, os.Getenv, log)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		endpoints[s.Name] = endpoint{source: s, keyring: keyring}
	}
	return endpoints, errors.Join(errs...)
}

func newServer(cfg Config, h *handler, log *slog.Logger) *http.Server {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		status := http.StatusInternalServerError
		var httpError *echo.HTTPError
		if errors.As(err, &httpError) {
			status = httpError.Code
		} else {
			log.Error("a request failed", slog.Any("error", err))
		}
		if !c.Response().Committed {
			_ = c.NoContent(status)
		}
	}
	h.register(e)
	return &http.Server{
		Handler:           e,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what senders do wrong with TCP and HTTP
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/simulator/answerline"
	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// stopTimeout is how long a stopping simulator waits for its clients.
const stopTimeout = 2 * time.Second

// Run plays the provider until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	log := cfg.Logger
	if log == nil {
		var err error
		if log, err = cfg.Log.New("simulator", os.Stderr); err != nil {
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	p := newProvider(ctx, cfg)
	registry, health := service.NewRegistry(), service.NewHealth()
	registry.MustRegister(collector{p})
	server := &http.Server{
		Handler: p.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error { return service.ServeHealth(ctx, cfg.HealthListen, health, registry, log) })
	group.Go(func() error { p.run(ctx); return nil })
	group.Go(func() error { return serve(ctx, server, listener) })
	health.Release("start")
	announce(ctx, log, cfg, listener.Addr())
	err = group.Wait()
	log.Info("stopped")
	return err
}

// announce says that the simulator is ready, and what about its settings is
// likely not meant.
func announce(ctx context.Context, log *slog.Logger, cfg Config, addr net.Addr) {
	log.InfoContext(ctx, "ready", slog.String("listen", addr.String()), slog.String("webhook_url", cfg.WebhookURL), slog.Float64("time_scale", cfg.TimeScale))
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.WarnContext(ctx, "the control API asks for no key and can be reached from elsewhere", slog.String("listen", addr.String()))
	}
	if cfg.WebhookURL != "" && len(cfg.Secrets) == 0 {
		log.WarnContext(ctx, "deliveries carry no signature: give --secret, or PUT /control/secrets")
	}
}

// serve serves until ctx ends, and then as long as clients take, within limits.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	<-stopped
	return nil
}

// provider is the simulated Answerline with all that drives it.
type provider struct {
	cfg    Config
	tasks  *answerline.Tasks
	api    *answerline.API
	engine *delivery.Engine
	bursts *bursts
}

// newProvider returns a provider at rest; its bursts end with ctx.
func newProvider(ctx context.Context, cfg Config) *provider {
	contract := answerline.Contract()
	contract.Timeout = cfg.AttemptTimeout
	engine := delivery.NewEngine(delivery.Config{
		Contract: contract, URL: cfg.WebhookURL, Secrets: cfg.Secrets, TimeScale: cfg.TimeScale, Senders: cfg.Senders,
		PrivateTargets: cfg.PrivateTargets, RedeliverLimit: cfg.RedeliverLimit, MaxLog: cfg.MaxLog, Seed: cfg.Seed,
	})
	tasks := answerline.NewTasks(answerline.Config{
		TimeScale: cfg.TimeScale, QueueFor: cfg.QueueFor, RunFor: cfg.RunFor, Keep: cfg.Keep,
		MaxTasks: cfg.MaxLog, ResultBytes: cfg.ResultBytes, Seed: cfg.Seed,
	}, engine.Add)
	p := &provider{
		cfg: cfg, tasks: tasks, engine: engine, api: answerline.NewAPI(tasks, cfg.APIKey, cfg.Seed),
		bursts: newBursts(ctx, tasks, cfg.Seed),
	}
	p.api.SetFaults(p.usual())
	return p
}

// usual are the API's faults at the start: tasks that fail belong to ordinary
// life.
func (p *provider) usual() answerline.Faults { return answerline.Faults{FailRatio: p.cfg.FailRatio} }

// run lives, sends and makes tasks until ctx ends.
func (p *provider) run(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error { p.engine.Run(ctx); return nil })
	group.Go(func() error { p.tasks.Run(ctx); return nil })
	group.Go(func() error { p.makeTasks(ctx); return nil })
	_ = group.Wait() // none of them fails
	p.bursts.wait()
}

// makeTasks creates tasks of the simulator's own at the configured rate.
func (p *provider) makeTasks(ctx context.Context) {
	if p.cfg.Rate == 0 {
		return
	}
	began := time.Now()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / p.cfg.Rate))
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		key := fmt.Sprintf("simulator-%s-%d", began.UTC().Format("20060102-150405"), n)
		// A full house turns the task away, as it would a client's.
		_, _ = p.tasks.Create(answerline.Request{TaskType: "answer", IdempotencyKey: &key})
	}
}

// reset forgets everything that has happened and been changed.
func (p *provider) reset() {
	p.bursts.stop()
	p.tasks.Reset()
	p.engine.Reset()
	p.api.SetFaults(p.usual())
	p.api.ResetCounts()
}

// handler serves the provider's API and the control API.
func (p *provider) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = answerError
	p.api.Register(e)
	(&control{p}).register(e)
	return e
}

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
	"github.com/prometheus/client_golang/prometheus"
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
	engine := delivery.NewEngine(delivery.Config{
		URL: cfg.WebhookURL, Secrets: cfg.Secrets, TimeScale: cfg.TimeScale, Senders: cfg.Senders,
		PrivateTargets: cfg.PrivateTargets, RedeliverLimit: cfg.RedeliverLimit, MaxLog: cfg.MaxLog, Seed: cfg.Seed,
	})
	tasks := answerline.NewTasks(answerline.Config{
		TimeScale: cfg.TimeScale, QueueFor: cfg.QueueFor, RunFor: cfg.RunFor, Keep: cfg.Keep,
		ResultBytes: cfg.ResultBytes, FailRatio: cfg.FailRatio, Seed: cfg.Seed,
	}, func(taskID string, body []byte) { engine.Add(taskID, body) })
	api := answerline.NewAPI(tasks, cfg.APIKey)

	registry, health := service.NewRegistry(), service.NewHealth()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "catchwater_simulator_pending_deliveries", Help: "Deliveries that are still being tried.",
	}, func() float64 { return float64(engine.Report(false).Pending) }))

	group, ctx := errgroup.WithContext(ctx)
	e := echo.New()
	api.Register(e)
	(&control{ctx: ctx, tasks: tasks, api: api, engine: engine}).register(e)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	server := &http.Server{
		Handler: e, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error { return service.ServeHealth(ctx, cfg.HealthListen, health, registry, log) })
	group.Go(func() error { engine.Run(ctx); return nil })
	group.Go(func() error { tasks.Run(ctx); return nil })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", cfg.Listen, err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if server.Shutdown(stop) != nil {
			_ = server.Close()
		}
		return nil
	})
	health.Release("start")
	log.Info("ready", slog.String("listen", listener.Addr().String()), slog.String("webhook_url", cfg.WebhookURL))
	err = group.Wait()
	log.Info("stopped")
	return err
}

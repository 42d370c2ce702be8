package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/service"
)

// stopTimeout is how long a stopping simulator waits for its clients.
const stopTimeout = 2 * time.Second

// Run plays the providers until ctx ends.
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
	p := newProviders(ctx, cfg)
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
	log.InfoContext(ctx, "ready", slog.String("listen", addr.String()), slog.String("webhook_url", cfg.WebhookURL), slog.String("koltrix_webhook_url", cfg.Koltrix.WebhookURL), slog.Float64("time_scale", cfg.TimeScale))
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.WarnContext(ctx, "the control API asks for no key and can be reached from elsewhere", slog.String("listen", addr.String()))
	}
	if cfg.WebhookURL != "" && len(cfg.Secrets) == 0 {
		log.WarnContext(ctx, "deliveries carry no signature: give --secret, or PUT /control/secrets")
	}
	if cfg.Koltrix.WebhookURL != "" && len(cfg.Koltrix.Secrets) == 0 {
		log.WarnContext(ctx, "Koltrix's deliveries carry no signature: give --koltrix-secret, or PUT /control/koltrix/secrets")
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

// providers are all that are simulated, each with an engine of its own.
type providers struct {
	answerline *answerlineProvider
	koltrix    *koltrixProvider
}

// newProviders returns providers at rest; their bursts end with ctx.
func newProviders(ctx context.Context, cfg Config) *providers {
	return &providers{newAnswerline(ctx, cfg), newKoltrix(ctx, cfg)}
}

// run lives and sends until ctx ends.
func (p *providers) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { p.answerline.run(ctx) })
	running.Go(func() { p.koltrix.run(ctx) })
	running.Wait()
}

// handler serves the providers' APIs and the control API.
func (p *providers) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = answerError
	p.answerline.register(e)
	p.koltrix.register(e)
	return e
}

// everySecond does something so many times a second until ctx ends, counted from
// 1. At a rate of 0 it does nothing.
func everySecond(ctx context.Context, rate float64, do func(n int)) {
	if rate == 0 {
		return
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		do(n)
	}
}

package processor

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/effects/target"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// effectConns are the performer's own database connections: to claim, to record,
// and to count.
const effectConns = 3

// openPerformer returns the performer, with connections of its own so that it and
// the processing of rows never wait for each other, and what closes those.
func openPerformer(ctx context.Context, cfg Config, sources *source.Config, registry prometheus.Registerer, tracer *tracing.Tracer, log *slog.Logger) (*performer, func(), error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, cfg.EffectWorkers
	transport.IdleConnTimeout = 30 * time.Second
	options := target.Options{
		Getenv: os.Getenv, Log: log, Transport: transport, Handlers: cfg.Handlers, SecretInterval: cfg.SecretInterval,
	}
	closeBroker := func() {}
	if publishes(sources) {
		broker, err := bus.Connect(bus.Options{URL: cfg.Broker.URL, Credentials: cfg.Credentials, Name: "catchwater processor, effects", Log: log})
		if err != nil {
			return nil, nil, err
		}
		options.Broker, closeBroker = broker, func() { broker.Close(0) }
	}
	database := cfg.Database
	database.MaxConns = effectConns
	pool, err := postgres.Open(ctx, database)
	if err != nil {
		closeBroker()
		return nil, nil, err
	}
	closeAll := func() {
		closeBroker()
		pool.Close()
		transport.CloseIdleConnections()
	}
	p, err := newPerformer(pool, cfg, sources, options, newEffectMetrics(registry, sources.Sources), tracer, log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return p, closeAll, nil
}

// publishes says whether any effect needs the broker.
func publishes(sources *source.Config) bool {
	for _, s := range sources.Sources {
		for _, e := range s.Effects {
			if e.NATS != nil {
				return true
			}
		}
	}
	return false
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/pkg/answers"
	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/messages"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/tracing"
)

// outagePause is how long a worker rests after a batch that was rolled back.
const outagePause = time.Second

// processor is the running service.
type processor struct {
	cfg       Config
	log       *slog.Logger
	consumer  *bus.Consumer
	batcher   *batcher
	metrics   *metrics
	backlog   *backlog
	watermark watermark
	bellLimit limit
	scanLimit limit
	performer *performer
}

// Run processes rows until ctx ends, then finishes the batches under way.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	log := cfg.Logger
	if log == nil {
		var err error
		if log, err = cfg.Log.New("processor", os.Stderr); err != nil {
			return err
		}
	}
	sources, err := source.Load(cfg.Path)
	if err != nil {
		return err
	}
	projections, err := projectionsOf(sources)
	if err != nil {
		return err
	}
	if err := cfg.Handlers.Check(sources.Sources); err != nil {
		return err
	}
	cfg.Database.MaxConns = max(cfg.Database.MaxConns, 2*int32(cfg.Workers)+2) // one a worker, twice: doorbell and scan; the look-out, the backlog
	pool, err := postgres.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	tracer, err := tracing.Start(ctx, cfg.Tracing, "processor", log)
	if err != nil {
		return err
	}
	defer tracer.Stop()
	broker, err := bus.Connect(bus.Options{URL: cfg.Broker.URL, Credentials: cfg.Credentials, Replicas: cfg.Replicas, Name: "catchwater processor", Log: log})
	if err != nil {
		return err
	}
	defer broker.Close(0)

	registry, health := service.NewRegistry(), service.NewHealth()
	consumer := broker.NewConsumer(bus.Announcements(), 2*cfg.Workers*cfg.BatchRows)
	metrics := newMetrics(registry, sources.Sources, consumer.Healthy)
	performer, closePerformer, err := openPerformer(ctx, cfg, sources, registry, tracer, log)
	if err != nil {
		return err
	}
	defer closePerformer()
	p := &processor{
		cfg: cfg, log: log, consumer: consumer, metrics: metrics, backlog: newBacklog(sources, newBacklogMetrics(registry, sources.Sources), log),
		bellLimit: limit{most: cfg.BatchRows}, scanLimit: limit{most: cfg.BatchRows},
		batcher: &batcher{
			db: pool, projections: projections, timeout: cfg.BatchTimeout, maxAttempts: cfg.MaxAttempts,
			retryBase: cfg.RetryBase, retryMax: cfg.RetryMax, metrics: metrics, tracer: tracer,
			plan: effects.NewPlan(sources.Sources, cfg.Handlers), onEffects: performer.nudge,
		},
		performer: performer,
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
		log.Info("ready", slog.Int("sources", len(sources.Sources)), slog.Int("workers", cfg.Workers))
		p.run(ctx, pool)
		return nil
	})
	err = group.Wait()
	log.Info("stopped")
	return err
}

// projectionsOf returns what is to be made of each source's rows.
func projectionsOf(sources *source.Config) (map[string]projection.Projection, error) {
	known := map[string]projection.Projection{
		source.ProjectionAnswers:  answers.Projection{},
		source.ProjectionMessages: messages.NewProjection(sources),
		source.ProjectionNone:     projection.None{},
	}
	projections := make(map[string]projection.Projection, len(sources.Sources))
	for _, s := range sources.Sources {
		p, ok := known[s.Projection]
		if !ok {
			return nil, fmt.Errorf("source %q: this processor has no projection %q", s.Name, s.Projection)
		}
		projections[s.Name] = p
	}
	return projections, nil
}

// run starts the loops and returns when all of them have stopped.
func (p *processor) run(ctx context.Context, db messages.DB) {
	var loops sync.WaitGroup
	loops.Go(func() { p.consumer.Run(ctx) })
	loops.Go(func() { p.scan(ctx) })
	loops.Go(func() { p.backlog.watch(ctx, db) })
	loops.Go(func() { p.wake(ctx, db) })
	loops.Go(func() { p.performer.run(ctx) })
	for range p.cfg.Workers {
		loops.Go(func() { p.answer(ctx) })
	}
	loops.Wait()
}

// record counts and logs a batch.
func (p *processor) record(ctx context.Context, via string, result outcome, err error) {
	if err != nil {
		p.metrics.failed.WithLabelValues(via).Inc()
		p.log.ErrorContext(ctx, "a batch was rolled back; its rows stay as they were", slog.String("via", via), slog.Any("error", err))
		return
	}
	if len(result.rows) == 0 {
		return
	}
	p.metrics.batchRows.WithLabelValues(via).Observe(float64(len(result.rows)))
	p.log.DebugContext(ctx, "processed a batch", slog.String("via", via), slog.Int("rows", len(result.rows)),
		slog.Int("failed", len(result.failures)), slog.Int("waiting", len(result.waiting)))
	rows := make(map[int64]inbox.Row, len(result.rows))
	for _, row := range result.rows {
		rows[row.ID] = row
	}
	unknown := make(map[string]int)
	for _, wait := range result.waiting {
		if wait.Pending {
			unknown[rows[wait.ID].Source]++
		}
	}
	for source, count := range unknown {
		p.log.WarnContext(ctx, "rows are put off whose source is not in this processor's sources file", slog.String("source", source), slog.Int("rows", count))
	}
	for _, failure := range result.failures {
		row := rows[failure.ID]
		p.logFailure(tracing.WithTraceparent(ctx, row.Traceparent), row, failure)
	}
}

func (p *processor) logFailure(ctx context.Context, row inbox.Row, failure inbox.Failure) {
	level, message := slog.LevelWarn, "a row could not be processed; it will be tried again"
	if failure.Quarantine {
		level, message = slog.LevelError, "a row was quarantined; when the cause is mended, `catchwater inbox retry` releases it"
	}
	attrs := []slog.Attr{
		slog.Int64("inbox_id", row.ID), slog.String("source", row.Source), slog.String("event_key", row.EventKey),
		slog.Int("attempt", row.Attempts+1), slog.Duration("retry_in", failure.RetryIn), slog.Any("error", failure.Err),
	}
	var panicked *panicError
	if errors.As(failure.Err, &panicked) {
		attrs = append(attrs, slog.String("stack", string(panicked.stack)))
	}
	p.log.LogAttrs(tracing.WithTraceparent(ctx, row.Traceparent), level, message, attrs...)
}

// pause rests after a batch that was rolled back.
func (p *processor) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(outagePause):
	}
}

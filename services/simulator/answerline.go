package simulator

import (
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/services/simulator/answerline"
)

// answerlineProvider is the simulated Answerline with all that drives it.
type answerlineProvider struct {
	outlet
	cfg   Config
	tasks *answerline.Tasks
	api   *answerline.API
}

// newAnswerline returns a provider at rest; its bursts end with ctx.
func newAnswerline(ctx context.Context, cfg Config) *answerlineProvider {
	contract := answerline.Contract()
	contract.Timeout = cfg.AttemptTimeout
	outlet := newOutlet(ctx, cfg.delivery(contract, cfg.WebhookURL, cfg.Secrets))
	tasks := answerline.NewTasks(answerline.Config{
		TimeScale: cfg.TimeScale, QueueFor: cfg.QueueFor, RunFor: cfg.RunFor, Keep: cfg.Keep,
		MaxTasks: cfg.MaxLog, ResultBytes: cfg.ResultBytes, Seed: cfg.Seed,
	}, outlet.engine.Add)
	p := &answerlineProvider{outlet: outlet, cfg: cfg, tasks: tasks, api: answerline.NewAPI(tasks, cfg.APIKey, cfg.Seed)}
	p.api.SetFaults(p.usual())
	return p
}

// usual are the API's faults at the start: tasks that fail belong to ordinary
// life.
func (p *answerlineProvider) usual() answerline.Faults {
	return answerline.Faults{Chances: answerline.Chances{Fail: p.cfg.FailRatio}}
}

// run lives, sends and makes tasks until ctx ends.
func (p *answerlineProvider) run(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error { p.engine.Run(ctx); return nil })
	group.Go(func() error { p.tasks.Run(ctx); return nil })
	group.Go(func() error { p.makeTasks(ctx); return nil })
	_ = group.Wait() // none of them fails
	p.bursts.wait()
}

// makeTasks creates tasks of the simulator's own at the configured rate.
func (p *answerlineProvider) makeTasks(ctx context.Context) {
	began := time.Now().UTC().Format("20060102-150405")
	everySecond(ctx, p.cfg.Rate, func(n int) {
		key := fmt.Sprintf("simulator-%s-%d", began, n)
		// A full house turns the task away, as it would a client's.
		_, _ = p.tasks.Create(answerline.Request{TaskType: "answer", IdempotencyKey: &key})
	})
}

// reset forgets everything that has happened and been changed.
func (p *answerlineProvider) reset() {
	p.bursts.stop()
	p.tasks.Reset()
	p.engine.Reset()
	p.api.SetFaults(p.usual())
	p.api.ResetCounts()
}

// register adds the provider's API and its part of the control API.
func (p *answerlineProvider) register(e *echo.Echo) {
	p.api.Register(e)
	p.control(e.Group("/control"))
}

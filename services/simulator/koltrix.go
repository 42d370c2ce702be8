package simulator

import (
	"context"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/catchwater/catchwater/services/simulator/gate"
	"github.com/catchwater/catchwater/services/simulator/koltrix"
)

// koltrixProvider is the simulated Koltrix with all that drives it.
type koltrixProvider struct {
	outlet
	rate     float64
	messages *koltrix.Messages
	api      *koltrix.API
}

// newKoltrix returns a provider at rest; its bursts end with ctx.
func newKoltrix(ctx context.Context, cfg Config) *koltrixProvider {
	contract := koltrix.Contract()
	contract.Timeout = cfg.Koltrix.AttemptTimeout
	outlet := newOutlet(ctx, cfg.delivery(contract, cfg.Koltrix.WebhookURL, cfg.Koltrix.Secrets))
	messages := koltrix.NewMessages(koltrix.Config{
		TimeScale: cfg.TimeScale, Step: cfg.Koltrix.Step, Keep: cfg.Keep, MaxMessages: cfg.MaxLog, Seed: cfg.Seed,
	}, outlet.engine.Add)
	return &koltrixProvider{
		outlet: outlet, rate: cfg.Koltrix.Rate, messages: messages, api: koltrix.NewAPI(messages, cfg.Koltrix.APIKey, cfg.Seed),
	}
}

// run lives, sends and makes messages until ctx ends.
func (p *koltrixProvider) run(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error { p.engine.Run(ctx); return nil })
	group.Go(func() error { p.messages.Run(ctx); return nil })
	group.Go(func() error {
		everySecond(ctx, p.rate, func(int) { _, _ = p.messages.Create(koltrix.Request{}) }) // a full house turns it away
		return nil
	})
	_ = group.Wait() // none of them fails
	p.bursts.wait()
}

// reset forgets everything that has happened and been changed.
func (p *koltrixProvider) reset() {
	p.bursts.stop()
	p.messages.Reset()
	p.engine.Reset()
	p.api.SetFaults(gate.Faults{})
	p.api.ResetCounts()
}

// register adds the provider's API and its part of the control API.
func (p *koltrixProvider) register(e *echo.Echo) {
	p.api.Register(e)
	p.control(e.Group("/control/koltrix"))
}

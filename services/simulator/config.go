// Package simulator is the service that stands in for the providers: their API,
// their delivery engine, and their faults. It keeps everything in memory and is
// never for production.
package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/service"
)

// Config is everything a simulator can be told.
type Config struct {
	service.Log `embed:""`

	Listen         string        `name:"listen" env:"CATCHWATER_LISTEN" default:"127.0.0.1:8090" help:"Address of the provider's API (/v1/async/…) and of the control API (/control/…)."`
	HealthListen   string        `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8190" help:"Address of /livez, /readyz and /metrics."`
	WebhookURL     string        `name:"webhook-url" env:"SIMULATOR_WEBHOOK_URL" help:"Where finished tasks are delivered; none means that deliveries are dead."`
	Secrets        []string      `name:"secret" env:"SIMULATOR_WEBHOOK_SECRET" help:"Signing secrets; every delivery is signed with each."`
	APIKey         string        `name:"api-key" env:"SIMULATOR_API_KEY" default:"sim-key" help:"The bearer key that the API asks for."`
	TimeScale      float64       `name:"time-scale" env:"SIMULATOR_TIME_SCALE" default:"1" help:"How many times faster the waits of retries and of tasks' lives pass (0.001 to 1000000)."`
	QueueFor       time.Duration `name:"queue-for" env:"SIMULATOR_QUEUE_FOR" default:"2s" help:"About how long a task is QUEUED, before the time scale."`
	RunFor         time.Duration `name:"run-for" env:"SIMULATOR_RUN_FOR" default:"3s" help:"About how long a task is PROCESSING, before the time scale."`
	Keep           time.Duration `name:"keep" env:"SIMULATOR_KEEP" default:"168h" help:"How long a finished task is kept, before the time scale."`
	FailRatio      float64       `name:"fail-ratio" env:"SIMULATOR_FAIL_RATIO" default:"0.05" help:"How many tasks fail, from 0 to 1."`
	ResultBytes    int           `name:"result-bytes" env:"SIMULATOR_RESULT_BYTES" default:"1700" help:"About how big an answer is."`
	Senders        int           `name:"senders" env:"SIMULATOR_SENDERS" default:"64" help:"Deliveries under way at a time (1 to 4096)."`
	PrivateTargets bool          `name:"private-targets" env:"SIMULATOR_PRIVATE_TARGETS" default:"true" negatable:"" help:"Deliver to http and to private addresses, which the real provider marks dead at once."`
	RedeliverLimit int           `name:"redeliver-limit" env:"SIMULATOR_REDELIVER_LIMIT" default:"100" help:"Redeliveries an hour, before the time scale."`
	MaxLog         int           `name:"max-log" env:"SIMULATOR_MAX_LOG" default:"1000000" help:"Deliveries kept in the log; the oldest ended ones make room."`
	Seed           uint64        `name:"seed" env:"SIMULATOR_SEED" default:"1" help:"Seed of everything random but ids."`

	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

// Validate is called by the command line parser, and by Run.
func (c Config) Validate() error {
	var errs []error
	if c.TimeScale < .001 || c.TimeScale > 1e6 {
		errs = append(errs, fmt.Errorf("--time-scale is %v: use 0.001 to 1000000", c.TimeScale))
	}
	if c.Senders < 1 || c.Senders > 4096 {
		errs = append(errs, fmt.Errorf("--senders is %d: use 1 to 4096", c.Senders))
	}
	if c.FailRatio < 0 || c.FailRatio > 1 {
		errs = append(errs, fmt.Errorf("--fail-ratio is %v: use 0 to 1", c.FailRatio))
	}
	if c.MaxLog < 1000 {
		errs = append(errs, fmt.Errorf("--max-log is %d: use at least 1000", c.MaxLog))
	}
	return errors.Join(errs...)
}

// Package simulator is the service that stands in for the providers: their API,
// their delivery engine, and their faults. It keeps everything in memory, asks
// nobody who they are under /control, and is never for production.
//
// Each provider is a package (answerline) that has the provider's API and its
// delivery contract; package delivery is the engine they share. This package
// joins them and adds the control API.
package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/catchwater/catchwater/pkg/service"
)

// Config is everything a simulator can be told.
type Config struct {
	service.Log `embed:""`

	Listen         string        `name:"listen" env:"CATCHWATER_LISTEN" default:"127.0.0.1:8090" help:"Address of the provider's API (/v1/async/…) and of the control API (/control/…), which asks for no key: keep it on loopback."`
	HealthListen   string        `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8190" help:"Address of /livez, /readyz and /metrics."`
	WebhookURL     string        `name:"webhook-url" env:"SIMULATOR_WEBHOOK_URL" help:"Where finished tasks are delivered; none means that deliveries are dead at once."`
	Secrets        []string      `name:"secret" env:"SIMULATOR_WEBHOOK_SECRET" help:"Signing secrets, comma-separated or given several times; every delivery is signed with each."`
	APIKey         string        `name:"api-key" env:"SIMULATOR_API_KEY" default:"sim-key" help:"The bearer key that the API asks for."`
	TimeScale      float64       `name:"time-scale" env:"SIMULATOR_TIME_SCALE" default:"1" help:"How many times faster the waits of retries and of tasks' lives pass: with 60, an hour takes a minute (0.001 to 1000000). Time stamps, signatures and a receiver's 15 s to answer stay real."`
	QueueFor       time.Duration `name:"queue-for" env:"SIMULATOR_QUEUE_FOR" default:"2s" help:"About how long a task is QUEUED, before the time scale; past 4h it fails with QUEUE_WAIT_EXCEEDED."`
	RunFor         time.Duration `name:"run-for" env:"SIMULATOR_RUN_FOR" default:"3s" help:"About how long a task is PROCESSING, before the time scale; past 5m it fails with RUN_TIME_EXCEEDED."`
	Keep           time.Duration `name:"keep" env:"SIMULATOR_KEEP" default:"168h" help:"How long a finished task is kept, before the time scale; then it is 404."`
	FailRatio      float64       `name:"fail-ratio" env:"SIMULATOR_FAIL_RATIO" default:"0.05" help:"How many tasks fail, from 0 to 1, until the control API says otherwise."`
	ResultBytes    int           `name:"result-bytes" env:"SIMULATOR_RESULT_BYTES" default:"1700" help:"About how big the text of an answer is, in bytes (0 to 67108864); its body has some 350 more."`
	Rate           float64       `name:"rate" env:"SIMULATOR_RATE" default:"0" help:"Tasks a second that the simulator makes by itself (0 to 1000)."`
	Senders        int           `name:"senders" env:"SIMULATOR_SENDERS" default:"64" help:"Deliveries under way at a time (1 to 4096)."`
	AttemptTimeout time.Duration `name:"attempt-timeout" env:"SIMULATOR_ATTEMPT_TIMEOUT" default:"15s" help:"How long a receiver has to answer, in real time (1ms to 10m)."`
	PrivateTargets bool          `name:"allow-private-targets" env:"SIMULATOR_ALLOW_PRIVATE_TARGETS" default:"true" negatable:"" help:"Deliver to http and to private addresses, as a local simulator must: true unless said otherwise. The real provider marks these dead at once."`
	RedeliverLimit int           `name:"redeliver-limit" env:"SIMULATOR_REDELIVER_LIMIT" default:"100" help:"Redeliveries an hour, before the time scale."`
	MaxLog         int           `name:"max-log" env:"SIMULATOR_MAX_LOG" default:"250000" help:"Deliveries, and tasks, kept; the oldest ended ones make room (at least 1000). Each takes about 1 KB, whatever its body's size."`
	Seed           uint64        `name:"seed" env:"SIMULATOR_SEED" default:"1" help:"Seed of everything random but ids."`

	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

const maxResultBytes = 64 << 20

// Validate is called by the command line parser, and by Run.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, flag string, value any, use string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s is %v: use %s", flag, value, use))
		}
	}
	check(c.TimeScale >= .001 && c.TimeScale <= 1e6, "time-scale", c.TimeScale, "0.001 to 1000000")
	check(c.QueueFor >= 0, "queue-for", c.QueueFor, "0s or more")
	check(c.RunFor >= 0, "run-for", c.RunFor, "0s or more")
	check(c.Keep > 0, "keep", c.Keep, "more than 0s")
	check(c.FailRatio >= 0 && c.FailRatio <= 1, "fail-ratio", c.FailRatio, "0 to 1")
	check(c.ResultBytes >= 0 && c.ResultBytes <= maxResultBytes, "result-bytes", c.ResultBytes, "0 to 67108864")
	check(c.Rate >= 0 && c.Rate <= 1000, "rate", c.Rate, "0 to 1000")
	check(c.Senders >= 1 && c.Senders <= 4096, "senders", c.Senders, "1 to 4096")
	check(c.AttemptTimeout >= time.Millisecond && c.AttemptTimeout <= 10*time.Minute, "attempt-timeout", c.AttemptTimeout, "1ms to 10m")
	check(c.RedeliverLimit >= 0, "redeliver-limit", c.RedeliverLimit, "0 or more")
	check(c.MaxLog >= 1000, "max-log", c.MaxLog, "at least 1000")
	if c.APIKey == "" {
		errs = append(errs, errors.New("--api-key is empty: give the key that clients use"))
	}
	if slices.Contains(c.Secrets, "") {
		errs = append(errs, errors.New("--secret is empty: give the receiver's secret, or none"))
	}
	return errors.Join(errs...)
}

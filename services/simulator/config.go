// Package simulator is the service that stands in for the providers: their API,
// their delivery engine, and their faults. It keeps everything in memory, asks
// nobody who they are under /control, and is never for production.
//
// Each provider is a package (answerline, koltrix) that has the provider's API
// and its delivery contract. What they share are packages too: delivery is the
// engine, gate the way into an API, due what keeps things until their time. This
// package joins them and adds the control API.
package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// Config is everything a simulator can be told.
type Config struct {
	service.Log `embed:""`

	Listen         string        `name:"listen" env:"CATCHWATER_LISTEN" default:"127.0.0.1:8090" help:"Address of the providers' APIs (/v1/async/…, /v1/messages) and of the control API (/control/…), which asks for no key: keep it on loopback."`
	HealthListen   string        `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8190" help:"Address of /livez, /readyz and /metrics."`
	WebhookURL     string        `name:"webhook-url" env:"SIMULATOR_WEBHOOK_URL" help:"Where finished tasks are delivered; none means that deliveries are dead at once."`
	Secrets        []string      `name:"secret" env:"SIMULATOR_WEBHOOK_SECRET" help:"Signing secrets, comma-separated or given several times; every delivery is signed with each."`
	APIKey         string        `name:"api-key" env:"SIMULATOR_API_KEY" default:"sim-key" help:"The bearer key that the API asks for."`
	TimeScale      float64       `name:"time-scale" env:"SIMULATOR_TIME_SCALE" default:"1" help:"How many times faster the waits of retries and of tasks' and messages' lives pass: with 60, an hour takes a minute (0.001 to 1000000). Time stamps, signatures and a receiver's time to answer stay real."`
	QueueFor       time.Duration `name:"queue-for" env:"SIMULATOR_QUEUE_FOR" default:"2s" help:"About how long a task is QUEUED, before the time scale; past 4h it fails with QUEUE_WAIT_EXCEEDED."`
	RunFor         time.Duration `name:"run-for" env:"SIMULATOR_RUN_FOR" default:"3s" help:"About how long a task is PROCESSING, before the time scale; past 5m it fails with RUN_TIME_EXCEEDED."`
	Keep           time.Duration `name:"keep" env:"SIMULATOR_KEEP" default:"168h" help:"How long a finished task, or a message after its last event, is kept, before the time scale; then it is 404."`
	FailRatio      float64       `name:"fail-ratio" env:"SIMULATOR_FAIL_RATIO" default:"0.05" help:"How many tasks fail, from 0 to 1, until the control API says otherwise."`
	ResultBytes    int           `name:"result-bytes" env:"SIMULATOR_RESULT_BYTES" default:"1700" help:"About how big the text of an answer is, in bytes (0 to 67108864); its body has some 350 more."`
	Rate           float64       `name:"rate" env:"SIMULATOR_RATE" default:"0" help:"Tasks a second that the simulator makes by itself (0, or 0.001 to 1000)."`
	Senders        int           `name:"senders" env:"SIMULATOR_SENDERS" default:"64" help:"Deliveries of a provider under way at a time (1 to 4096). With 1 they arrive in order."`
	AttemptTimeout time.Duration `name:"attempt-timeout" env:"SIMULATOR_ATTEMPT_TIMEOUT" default:"15s" help:"How long a receiver has to answer Answerline, in real time (1ms to 10m)."`
	PrivateTargets bool          `name:"allow-private-targets" env:"SIMULATOR_ALLOW_PRIVATE_TARGETS" default:"true" negatable:"" help:"Deliver to http and to private addresses, as a local simulator must: true unless said otherwise. The real provider marks these dead at once."`
	RedeliverLimit int           `name:"redeliver-limit" env:"SIMULATOR_REDELIVER_LIMIT" default:"100" help:"Redeliveries of a provider an hour, before the time scale."`
	MaxLog         int           `name:"max-log" env:"SIMULATOR_MAX_LOG" default:"250000" help:"Deliveries of a provider, and tasks and messages, kept; the oldest ended ones make room (at least 1000). Each takes about 1 KB, whatever its body's size."`
	Seed           uint64        `name:"seed" env:"SIMULATOR_SEED" default:"1" help:"Seed of everything random but ids."`

	Koltrix Koltrix `embed:"" prefix:"koltrix-"`

	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

// Koltrix is what the provider of e-mail can be told.
type Koltrix struct {
	WebhookURL     string        `name:"webhook-url" env:"SIMULATOR_KOLTRIX_WEBHOOK_URL" help:"Where the events of messages are delivered; none means that their deliveries are dead at once."`
	Secrets        []string      `name:"secret" env:"SIMULATOR_KOLTRIX_WEBHOOK_SECRET" help:"Koltrix's signing secrets, comma-separated or given several times; every delivery is signed with each."`
	APIKey         string        `name:"api-key" env:"SIMULATOR_KOLTRIX_API_KEY" default:"sim-key" help:"The bearer key that Koltrix's API asks for."`
	Rate           float64       `name:"rate" env:"SIMULATOR_KOLTRIX_RATE" default:"0" help:"Messages a second that the simulator sends by itself (0, or 0.001 to 1000)."`
	Step           time.Duration `name:"step" env:"SIMULATOR_KOLTRIX_STEP" default:"2s" help:"About how long a message's next event takes, before the time scale: an open, say, after its delivery."`
	AttemptTimeout time.Duration `name:"attempt-timeout" env:"SIMULATOR_KOLTRIX_ATTEMPT_TIMEOUT" default:"8s" help:"How long a receiver has to answer Koltrix, in real time (1ms to 10m)."`
}

const maxResultBytes = 64 << 20

// HealthAddress is where /readyz is.
func (c Config) HealthAddress() string { return c.HealthListen }

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
	check(rateFits(c.Rate), "rate", c.Rate, "0, or 0.001 to 1000")
	check(c.Senders >= 1 && c.Senders <= 4096, "senders", c.Senders, "1 to 4096")
	check(c.AttemptTimeout >= time.Millisecond && c.AttemptTimeout <= 10*time.Minute, "attempt-timeout", c.AttemptTimeout, "1ms to 10m")
	check(rateFits(c.Koltrix.Rate), "koltrix-rate", c.Koltrix.Rate, "0, or 0.001 to 1000")
	check(c.Koltrix.Step >= 0, "koltrix-step", c.Koltrix.Step, "0s or more")
	check(c.Koltrix.AttemptTimeout >= time.Millisecond && c.Koltrix.AttemptTimeout <= 10*time.Minute, "koltrix-attempt-timeout", c.Koltrix.AttemptTimeout, "1ms to 10m")
	check(c.RedeliverLimit >= 0, "redeliver-limit", c.RedeliverLimit, "0 or more")
	check(c.MaxLog >= 1000, "max-log", c.MaxLog, "at least 1000")
	for _, of := range []struct {
		prefix, key string
		secrets     []string
	}{{"", c.APIKey, c.Secrets}, {"koltrix-", c.Koltrix.APIKey, c.Koltrix.Secrets}} {
		if of.key == "" {
			errs = append(errs, fmt.Errorf("--%sapi-key is empty: give the key that clients use", of.prefix))
		}
		if slices.Contains(of.secrets, "") {
			errs = append(errs, fmt.Errorf("--%ssecret is empty: give the receiver's secret, or none", of.prefix))
		}
	}
	return errors.Join(errs...)
}

// rateFits reports whether a ticker can keep a rate, or none is needed.
func rateFits(perSecond float64) bool {
	return perSecond == 0 || perSecond >= .001 && perSecond <= 1000
}

// delivery is how the engine of a provider is set up.
func (c Config) delivery(contract delivery.Contract, url string, secrets []string) delivery.Config {
	return delivery.Config{
		Contract: contract, URL: url, Secrets: secrets, TimeScale: c.TimeScale, Senders: c.Senders,
		PrivateTargets: c.PrivateTargets, RedeliverLimit: c.RedeliverLimit, MaxLog: c.MaxLog, Seed: c.Seed,
	}
}

// Package ingress is the service that faces the senders. It verifies each
// delivery, stores it in the inbox, answers 2xx after the commit, and rings the
// doorbell. It does nothing else, so that it can stay up while everything else
// is being changed.
package ingress

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/service"
)

// Config is everything an ingress can be told.
type Config struct {
	service.Log      `embed:""`
	service.Database `embed:""`
	service.Broker   `embed:""`
	service.Sources  `embed:""`
	service.Tracing  `embed:""`

	Listen       string `name:"listen" env:"CATCHWATER_LISTEN" default:"127.0.0.1:8080" help:"Address for deliveries: POST /hooks/{source}."`
	HealthListen string `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8180" help:"Address of /livez, /readyz and /metrics."`

	AnswerTimeout time.Duration `name:"answer-timeout" env:"CATCHWATER_ANSWER_TIMEOUT" default:"4s" help:"Longest time from the end of a delivery's body to its answer; past it the answer is 503. Keep it well below the least patient sender's time-out."`
	ReadTimeout   time.Duration `name:"read-timeout" env:"CATCHWATER_READ_TIMEOUT" default:"30s" help:"Longest time for a sender to send one request."`
	HeaderTimeout time.Duration `name:"header-timeout" env:"CATCHWATER_HEADER_TIMEOUT" default:"5s" help:"Longest time for a sender to send a request's headers."`
	IdleTimeout   time.Duration `name:"idle-timeout" env:"CATCHWATER_IDLE_TIMEOUT" default:"75s" help:"How long an idle connection is kept."`
	RetryAfter    time.Duration `name:"retry-after" env:"CATCHWATER_RETRY_AFTER" default:"5s" help:"What Retry-After says on a 503 (whole seconds)."`
	BodyMemory    int64         `name:"body-memory" env:"CATCHWATER_BODY_MEMORY" default:"268435456" help:"Most bytes of bodies held in memory at once, over all requests; past it the answer is 503."`

	Flushers   int           `name:"flushers" env:"CATCHWATER_FLUSHERS" default:"4" help:"Batches written at a time (1 to 64), each on a database connection of its own."`
	QueueRows  int           `name:"queue-rows" env:"CATCHWATER_QUEUE_ROWS" default:"4096" help:"Deliveries waiting to be written; when so many wait, the answer is 503 (1 to 1000000)."`
	BatchRows  int           `name:"batch-rows" env:"CATCHWATER_BATCH_ROWS" default:"256" help:"Most deliveries in one insert (1 to 5000)."`
	BatchBytes int           `name:"batch-bytes" env:"CATCHWATER_BATCH_BYTES" default:"8388608" help:"Bytes of bodies after which no more deliveries are added to an insert."`
	Grace      time.Duration `name:"grace" env:"CATCHWATER_GRACE" default:"5s" help:"How long a new row is left to the doorbell before processors that scan for due rows take it up."`

	SecretInterval time.Duration `name:"secret-interval" env:"CATCHWATER_SECRET_INTERVAL" default:"1s" help:"How often secret files are looked at for changes."`
	DrainDelay     time.Duration `name:"drain-delay" env:"CATCHWATER_DRAIN_DELAY" default:"1s" help:"On SIGTERM, how long to go on serving while unready, so that load balancers notice first and senders let go of kept connections."`
	DrainTimeout   time.Duration `name:"drain-timeout" env:"CATCHWATER_DRAIN_TIMEOUT" default:"20s" help:"On SIGTERM, longest wait for requests under way."`

	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

// HealthAddress is where /readyz is.
func (c Config) HealthAddress() string { return c.HealthListen }

// Validate is called by the command line parser, and by Run.
func (c Config) Validate() error {
	var errs []error
	between := func(setting string, n, low, high int64) {
		if n < low || n > high {
			errs = append(errs, fmt.Errorf("--%s is %d: use %d to %d", setting, n, low, high))
		}
	}
	positive := func(setting string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s is %s: use more than 0", setting, d))
		}
	}
	between("flushers", int64(c.Flushers), 1, 64)
	between("queue-rows", int64(c.QueueRows), 1, 1_000_000)
	between("batch-rows", int64(c.BatchRows), 1, 5000)
	between("batch-bytes", int64(c.BatchBytes), 1, 256<<20)
	between("body-memory", c.BodyMemory, 1<<20, 1<<40)
	positive("answer-timeout", c.AnswerTimeout)
	positive("read-timeout", c.ReadTimeout)
	positive("header-timeout", c.HeaderTimeout)
	positive("idle-timeout", c.IdleTimeout)
	positive("secret-interval", c.SecretInterval)
	positive("drain-timeout", c.DrainTimeout)
	if c.RetryAfter < time.Second {
		errs = append(errs, fmt.Errorf("--retry-after is %s: use at least 1s", c.RetryAfter))
	}
	if c.Grace < 0 || c.DrainDelay < 0 {
		errs = append(errs, errors.New("--grace and --drain-delay: use 0 or more"))
	}
	return errors.Join(errs...)
}

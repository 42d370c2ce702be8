// Package reconciler is the service that goes back to the provider for what
// never arrived.
//
// One reconciler leads: it looks for overdue tasks, and for messages that have
// no final status for long, and hands them out over the broker, or asks by itself
// when the broker is away. All of them ask, under one rate limit a source that is
// kept in Postgres. What the provider says of a task that has ended, or of a
// message, goes into the same inbox as a delivery, under the same key, and is
// processed like one. The leader also keeps the payload partitions.
package reconciler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/partitions"
	"github.com/catchwater/catchwater/pkg/service"
)

// Config is everything a reconciler can be told.
type Config struct {
	service.Log      `embed:""`
	service.Database `embed:""`
	service.Broker   `embed:""`
	service.Streams  `embed:""`
	service.Sources  `embed:""`
	service.Tracing  `embed:""`

	HealthListen     string        `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8183" help:"Address of /livez, /readyz and /metrics."`
	ScanInterval     time.Duration `name:"scan-interval" env:"CATCHWATER_SCAN_INTERVAL" default:"30s" help:"How often the leader looks for overdue tasks and messages."`
	Workers          int           `name:"workers" env:"CATCHWATER_WORKERS" default:"4" help:"Polls under way at a time (1 to 64)."`
	Lease            time.Duration `name:"lease" env:"CATCHWATER_LEASE" default:"15s" help:"How long after a leader's death another takes over (at least 1s)."`
	PayloadRetention time.Duration `name:"payload-retention" env:"CATCHWATER_PAYLOAD_RETENTION" default:"720h" help:"How long bodies are kept, by whole days of UTC (at least 24h); 0 keeps them for ever. Keys stay, and so do bodies whose rows are not processed or whose effects are not performed. Effects that were performed are forgotten after as long."`
	PartitionsEvery  time.Duration `name:"partitions-interval" env:"CATCHWATER_PARTITIONS_INTERVAL" default:"1h" help:"How often payload partitions are made ahead and expired ones dropped."`
	Grace            time.Duration `name:"grace" env:"CATCHWATER_GRACE" default:"5s" help:"How long a new row is left to the doorbell before processors that scan for due rows take it up."`

	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

// HealthAddress is where /readyz is.
func (c Config) HealthAddress() string { return c.HealthListen }

// Validate is called by the command line parser, and by Run.
func (c Config) Validate() error {
	var errs []error
	if c.ScanInterval <= 0 || c.PartitionsEvery <= 0 {
		errs = append(errs, errors.New("--scan-interval and --partitions-interval: use more than 0"))
	}
	if c.Workers < 1 || c.Workers > 64 {
		errs = append(errs, fmt.Errorf("--workers is %d: use 1 to 64", c.Workers))
	}
	if c.Lease < time.Second {
		errs = append(errs, fmt.Errorf("--lease is %s: use at least 1s", c.Lease))
	}
	if c.PayloadRetention != 0 && c.PayloadRetention < partitions.MinRetention {
		errs = append(errs, fmt.Errorf("--payload-retention is %s: use at least %s, or 0 to keep bodies for ever", c.PayloadRetention, partitions.MinRetention))
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("--grace is %s: use 0 or more", c.Grace))
	}
	return errors.Join(errs...)
}

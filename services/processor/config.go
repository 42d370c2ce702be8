// Package processor is the service that makes something of what the inbox
// holds. It learns of rows from the doorbell and, for whatever the doorbell did
// not tell, by scanning for due rows itself.
package processor

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/service"
)

// Config is everything a processor can be told.
type Config struct {
	service.Log      `embed:""`
	service.Database `embed:""`
	service.Broker   `embed:""`
	service.Streams  `embed:""`
	service.Sources  `embed:""`
	service.Tracing  `embed:""`

	HealthListen string        `name:"health-listen" env:"CATCHWATER_HEALTH_LISTEN" default:"127.0.0.1:8182" help:"Address of /livez, /readyz and /metrics."`
	Workers      int           `name:"workers" env:"CATCHWATER_WORKERS" default:"4" help:"Batches of the doorbell processed at a time, and as many again of due rows while there is a backlog (1 to 64), each on a database connection of its own."`
	BatchRows    int           `name:"batch-rows" env:"CATCHWATER_BATCH_ROWS" default:"256" help:"Most rows in one transaction (1 to 10000)."`
	ScanInterval time.Duration `name:"scan-interval" env:"CATCHWATER_SCAN_INTERVAL" default:"2s" help:"How often due rows are looked for while the doorbell works."`
	EagerScan    time.Duration `name:"eager-scan-interval" env:"CATCHWATER_EAGER_SCAN_INTERVAL" default:"200ms" help:"How often rows are looked for while the doorbell is silent."`
	Grace        time.Duration `name:"grace" env:"CATCHWATER_GRACE" default:"5s" help:"How far ahead a new row's first scan lies; the same as the ingress's setting. Rows are taken ahead of it while the doorbell is silent."`
	MaxAttempts  int           `name:"max-attempts" env:"CATCHWATER_MAX_ATTEMPTS" default:"10" help:"Attempts on a row before it is quarantined (1 to 1000)."`
	RetryBase    time.Duration `name:"retry-base" env:"CATCHWATER_RETRY_BASE" default:"1s" help:"Wait after a row's first failed attempt; it doubles with each one, less a random part of up to half."`
	RetryMax     time.Duration `name:"retry-max" env:"CATCHWATER_RETRY_MAX" default:"5m" help:"Longest wait between two attempts on a row."`
	BatchTimeout time.Duration `name:"batch-timeout" env:"CATCHWATER_BATCH_TIMEOUT" default:"20s" help:"Longest time for one transaction; less than the 30 s after which the broker hands its messages out again."`

	EffectWorkers  int           `name:"effect-workers" env:"CATCHWATER_EFFECT_WORKERS" default:"8" help:"Calls of each effect under way at a time (1 to 256). Each effect has so many for itself, so that one whose target is down holds no other up."`
	EffectLease    time.Duration `name:"effect-lease" env:"CATCHWATER_EFFECT_LEASE" default:"1m" help:"How long past a call's time-out a processor that has not recorded it is taken for dead, and the call repeated (5s or more)."`
	SecretInterval time.Duration `name:"secret-interval" env:"CATCHWATER_SECRET_INTERVAL" default:"1s" help:"How often secret files are looked at for changes."`

	// Handlers are what effects with a handler in the sources file run.
	Handlers effects.Handlers `kong:"-"`
	// Logger is used instead of one made from the log settings.
	Logger *slog.Logger `kong:"-"`
}

// HealthAddress is where /readyz is.
func (c Config) HealthAddress() string { return c.HealthListen }

// Validate is called by the command line parser, and by Run.
func (c Config) Validate() error {
	var errs []error
	between := func(setting string, n, low, high int) {
		if n < low || n > high {
			errs = append(errs, fmt.Errorf("--%s is %d: use %d to %d", setting, n, low, high))
		}
	}
	positive := func(setting string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s is %s: use more than 0", setting, d))
		}
	}
	between("workers", c.Workers, 1, 64)
	between("batch-rows", c.BatchRows, 1, 10_000)
	between("max-attempts", c.MaxAttempts, 1, 1000)
	between("effect-workers", c.EffectWorkers, 1, 256)
	positive("scan-interval", c.ScanInterval)
	positive("secret-interval", c.SecretInterval)
	positive("eager-scan-interval", c.EagerScan)
	positive("retry-base", c.RetryBase)
	if c.RetryMax < c.RetryBase {
		errs = append(errs, fmt.Errorf("--retry-max is %s: use at least --retry-base, %s", c.RetryMax, c.RetryBase))
	}
	if c.BatchTimeout <= 0 || c.BatchTimeout >= 30*time.Second {
		errs = append(errs, fmt.Errorf("--batch-timeout is %s: use more than 0 and less than 30s", c.BatchTimeout))
	}
	if c.EffectLease < leastEffectLease {
		errs = append(errs, fmt.Errorf("--effect-lease is %s: use at least %s", c.EffectLease, leastEffectLease))
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("--grace is %s: use 0 or more", c.Grace))
	}
	return errors.Join(errs...)
}

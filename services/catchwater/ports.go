package catchwater

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/alecthomas/kong"

	"github.com/catchwater/catchwater/pkg/pgserver"
)

// choosePorts settles every port, and checks that nobody listens on those that
// are not simply any free one.
func (c *upCommand) choosePorts(ctx context.Context) error {
	const any = 0
	var errs []error
	for _, p := range []struct {
		flag   string
		port   *int
		usual  int
		unused bool
	}{
		{"--ingress-port", &c.IngressPort, 8080, false},
		{"--ingress-health-port", &c.IngressHealthPort, 8180, false},
		{"--processor-health-port", &c.ProcessorHealthPort, 8182, false},
		{"--reconciler-health-port", &c.ReconcilerHealthPort, 8183, false},
		{"--simulator-port", &c.SimulatorPort, 8090, c.NoSimulator},
		{"--simulator-health-port", &c.SimulatorHealthPort, 8190, c.NoSimulator},
		{"--nats-port", &c.NATSPort, any, false},
		{"--postgres-port", &c.PostgresPort, any, false},
	} {
		if p.unused {
			continue
		}
		if *p.port == 0 && c.Ports == "fixed" {
			*p.port = p.usual
		}
		if *p.port == 0 {
			free, err := pgserver.FreePort()
			if err != nil {
				return err
			}
			*p.port = free
			continue
		}
		if *p.port < 1 || *p.port > 65535 {
			errs = append(errs, fmt.Errorf("%s is %d: use 1 to 65535", p.flag, *p.port))
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", local(*p.port))
		if err != nil {
			errs = append(errs, fmt.Errorf("port %d is taken: %s", *p.port, c.insteadOf(p.flag)))
			continue
		}
		_ = listener.Close()
	}
	return errors.Join(errs...)
}

// insteadOf says what to do about a port that is taken.
func (c *upCommand) insteadOf(flag string) string {
	if c.Ports == "free" { // it was given by the flag
		return "give another with " + flag + ", or leave the flag out for any that is free"
	}
	return "give another with " + flag + ", or run with --ports=free"
}

// defaults returns a service's settings as they are when nothing is given.
func defaults[C any]() C {
	var cfg C
	if err := kong.ApplyDefaults(&cfg); err != nil {
		panic(fmt.Sprintf("catchwater: the defaults of %T are no settings: %v", cfg, err)) // a defect of ours
	}
	return cfg
}

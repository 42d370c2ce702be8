package catchwater

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/services/ingress"
	"github.com/catchwater/catchwater/services/processor"
	"github.com/catchwater/catchwater/services/reconciler"
	"github.com/catchwater/catchwater/services/simulator"
)

type upCommand struct {
	Config      string  `type:"existingfile" help:"Sources file; without one, demonstration sources whose providers are the simulator."`
	NoSimulator bool    `help:"Run no simulator."`
	Rate        float64 `default:"2" help:"Tasks a second that are submitted to the simulator (0 for none, or 0.001 to 1000)."`
	MailRate    float64 `default:"1" help:"Messages a second that are sent through the simulator (0 for none, or 0.001 to 1000)."`
	Ports       string  `enum:"fixed,free" default:"fixed" help:"fixed uses the usual ports, free any that are free, to run beside another system; a port that is given is used in either case."`

	IngressPort          int `help:"Port for deliveries; usually 8080."`
	SimulatorPort        int `help:"Port of the simulator; usually 8090."`
	IngressHealthPort    int `help:"Port of the ingress's health and metrics; usually 8180."`
	ProcessorHealthPort  int `help:"Port of the processor's health and metrics; usually 8182."`
	ReconcilerHealthPort int `help:"Port of the reconciler's health and metrics; usually 8183."`
	SimulatorHealthPort  int `help:"Port of the simulator's health and metrics; usually 8190."`
	NATSPort             int `name:"nats-port" help:"Port of the broker; usually a free one."`
	PostgresPort         int `help:"Port of the database; usually a free one."`
}

// Run starts everything and stops it, in order, when ctx ends or a part fails.
func (c *upCommand) Run(ctx context.Context, s *settings, out output) error {
	if err := errors.Join(checkRate("--rate", c.Rate), checkRate("--mail-rate", c.MailRate)); err != nil {
		return err
	}
	if err := c.checkSources(); err != nil {
		return err // before anything is started
	}
	folder, err := openFolder(s.dataDir)
	if err != nil {
		return err
	}
	defer folder.close()
	if err := c.choosePorts(ctx); err != nil {
		return err
	}
	screen := newScreen(out.Writer, isTerminal(out.Writer))
	log, err := folder.logger(screen, "up")
	if err != nil {
		return err
	}

	screen.say("starting the database …")
	database, err := startDatabase(ctx, folder, c.PostgresPort)
	if err != nil {
		return err
	}
	defer database.stop(log)
	if kept := database.server.DataDir(); kept != folder.path("postgres") {
		screen.say("the database's user cannot reach " + folder.root + "; the database stands in " + kept)
	}
	screen.say("starting the broker …")
	broker, err := startBroker(folder.path("nats"), c.NATSPort)
	if err != nil {
		return err
	}
	defer broker.stop()
	setup := &setup{upCommand: c, folder: folder, database: database, broker: broker}
	if err := setup.configure(); err != nil {
		return err
	}
	if err := setup.writeEnv(); err != nil {
		return err
	}
	return setup.runServices(ctx, screen, log)
}

func checkRate(flag string, rate float64) error {
	if rate == 0 || rate >= 0.001 && rate <= 1000 { // so written, NaN is refused
		return nil
	}
	return fmt.Errorf("%s is %v: use 0 for none, or 0.001 to 1000", flag, rate)
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// setup is a system with its settings worked out.
type setup struct {
	*upCommand
	folder   *folder
	database *database
	broker   *broker

	configPath    string   // of the sources file
	sources       []string // their names
	answers, mail demoSecrets
}

// part is a service that runs inside this process.
type part struct {
	name string
	run  func(ctx context.Context, log *slog.Logger) error
	stop context.CancelFunc
	done chan struct{}
}

// runServices runs the services until ctx ends or one fails, and stops them in
// the order in which a delivery meets them: so that each finds those behind it.
func (u *setup) runServices(ctx context.Context, screen *screen, log *slog.Logger) error {
	parts := u.parts()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, p := range parts {
		partLog, err := u.folder.logger(screen, p.name)
		if err != nil {
			return err
		}
		partCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		p.stop, p.done = stop, make(chan struct{})
		go func() {
			defer close(p.done)
			if err := p.run(partCtx, partLog); err != nil {
				cancel(fmt.Errorf("%s: %w", p.name, err))
			} else if partCtx.Err() == nil {
				cancel(fmt.Errorf("%s ended by itself", p.name))
			}
		}()
	}
	var watchers sync.WaitGroup
	watchers.Go(func() {
		select {
		case <-u.database.server.Done():
			cancel(errors.New("the database ended; " + u.folder.path("logs", "postgres.log") + " says why"))
		case <-ctx.Done():
		}
	})
	watchers.Go(func() {
		if err := screen.watch(ctx, u); err != nil {
			cancel(fmt.Errorf("show the system: %w", err))
		}
	})
	if !u.NoSimulator {
		watchers.Go(func() { u.demonstrate(ctx, log) })
	}
	<-ctx.Done()
	u.folder.removeEnv() // now, for a second signal ends the process at once
	watchers.Wait()
	screen.say("stopping …")
	for _, p := range parts {
		p.stop()
		<-p.done
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	screen.say("stopped; everything is kept in " + u.folder.root)
	return nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// parts are the services in the order in which they are stopped.
func (u *setup) parts() []*part {
	db := func(role string) service.Database {
		return service.Database{URL: u.database.roleURL(role), MaxConns: 8, ConnectTimeout: 2 * time.Second}
	}
	broker, sources := service.Broker{URL: u.broker.url()}, service.Sources{Path: u.configPath}
	parts := []*part{
		{name: "ingress", run: func(ctx context.Context, log *slog.Logger) error {
			cfg := defaults[ingress.Config]()
			cfg.Database, cfg.Broker, cfg.Sources, cfg.Logger = db("catchwater_ingress"), broker, sources, log
			cfg.Listen, cfg.HealthListen = local(u.IngressPort), local(u.IngressHealthPort)
			cfg.DrainDelay = 0 // there is no load balancer, and somebody waits at the terminal
			return ingress.Run(ctx, cfg)
		}},
		{name: "processor", run: func(ctx context.Context, log *slog.Logger) error {
			cfg := defaults[processor.Config]()
			cfg.Database, cfg.Broker, cfg.Sources, cfg.Logger = db("catchwater_processor"), broker, sources, log
			cfg.HealthListen = local(u.ProcessorHealthPort)
			return processor.Run(ctx, cfg)
		}},
		{name: "reconciler", run: func(ctx context.Context, log *slog.Logger) error {
			cfg := defaults[reconciler.Config]()
			cfg.Database, cfg.Broker, cfg.Sources, cfg.Logger = db("catchwater_reconciler"), broker, sources, log
			cfg.HealthListen, cfg.ScanInterval = local(u.ReconcilerHealthPort), demoScanInterval
			return reconciler.Run(ctx, cfg)
		}},
	}
	if u.NoSimulator {
		return parts
	}
	return append([]*part{{name: "simulator", run: func(ctx context.Context, log *slog.Logger) error {
		cfg := defaults[simulator.Config]()
		cfg.Logger, cfg.Listen, cfg.HealthListen = log, local(u.SimulatorPort), local(u.SimulatorHealthPort)
		hooks := "http://" + local(u.IngressPort) + "/hooks/"
		cfg.WebhookURL, cfg.Secrets, cfg.APIKey = hooks+demoSource, []string{u.answers.signing}, u.answers.apiKey
		cfg.Koltrix.WebhookURL, cfg.Koltrix.Secrets, cfg.Koltrix.APIKey = hooks+demoMailSource, []string{u.mail.signing}, u.mail.apiKey
		return simulator.Run(ctx, cfg)
	}}}, parts...)
}

// mode of files with secrets in them.
const private = 0o600

// folder is the data folder of a system.
type folder struct {
	root string
	lock *os.File
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.root}, parts...)...)
}

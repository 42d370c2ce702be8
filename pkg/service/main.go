package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// Main is a whole service main: it reads settings into cfg from flags and
// environment, runs until SIGTERM or SIGINT, and exits. A second signal ends
// the process at once. With --check it asks the service that runs with the same
// settings instead, and with --version it says its version.
func Main[C interface{ HealthAddress() string }](name, description string, cfg C, run func(context.Context, C) error) {
	var asked struct {
		Check   bool             `help:"Ask the service that runs with these settings whether it is ready: exit status 0 when it is."`
		Version kong.VersionFlag `help:"Print the version."`
	}
	parser, err := kong.New(&cfg,
		kong.Name(name),
		kong.Description(description),
		kong.UsageOnError(),
		kong.Vars{"version": name + " " + Version()},
		kong.Embed(&asked),
	)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	_, err = parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // the next signal has its default effect
	if asked.Check {
		run = func(ctx context.Context, cfg C) error { return CheckReady(ctx, cfg.HealthAddress()) }
	}
	if err := run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// version is what -ldflags "-X …/pkg/service.version=…" stamps into a binary.
var version string

// Version is the version stamped into the binary, or "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

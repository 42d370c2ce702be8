// Package catchwater is the program that a person types. `catchwater up` runs
// everything in one process tree; the other commands are an operator's, and
// work on any Catchwater whose database they can reach.
package catchwater

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/catchwater/catchwater/pkg/service"
)

type cli struct {
	DataDir string `name:"data-dir" env:"CATCHWATER_DATA_DIR" default:"data" help:"Folder of a system run by up; the other commands find its database and settings there when the environment does not say."`

	Up       upCommand       `cmd:"" help:"Run everything on this machine: broker, database, services, and a simulator that delivers."`
	Migrate  migrateCommand  `cmd:"" help:"Bring a database to this version's schema."`
	Tasks    tasksCommand    `cmd:"" help:"Submit tasks, and see what has not come back."`
	Messages messagesCommand `cmd:"" help:"Register messages, and see how they stand."`
	Inbox    inboxCommand    `cmd:"" help:"Look into the inbox, and release rows from quarantine."`
	Effects  effectsCommand  `cmd:"" help:"See what is to follow from events, and try again what was given up."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

// Environment returns the names of the environment variables that commands read,
// for those who check a deployment against it.
func Environment() ([]string, error) {
	parser, err := kong.New(&cli{})
	if err != nil {
		return nil, err
	}
	names := []string{"DATABASE_URL", "CATCHWATER_CONFIG"} // settings.get
	nodes := []*kong.Node{parser.Model.Node}
	for len(nodes) > 0 {
		for _, flag := range nodes[0].Flags {
			names = append(names, flag.Envs...)
		}
		nodes = append(nodes[1:], nodes[0].Children...)
	}
	return names, nil
}

// output is where a command writes what it was asked for.
type output struct{ io.Writer }

type versionCommand struct{}

func (versionCommand) Run(out output) error {
	_, err := fmt.Fprintln(out, "catchwater", service.Version())
	return err
}

// Main runs one command line and returns the exit status: 0, 1 for a failure,
// 2 for a command line that makes no sense.
func Main(args []string, stdout, stderr io.Writer) int {
	var commands cli
	exit := -1
	parser, err := kong.New(&commands,
		kong.Name("catchwater"),
		kong.Description("A durable receiver for webhooks."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(status int) { exit = status }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "catchwater:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help has been printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "catchwater: %v\nTry: catchwater --help\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal has its default effect
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(output{stdout}, hints{stderr}, &settings{dataDir: commands.DataDir, getenv: os.Getenv})
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(stderr, "catchwater:", err)
		return 1
	}
	return 0
}

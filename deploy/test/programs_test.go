package test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/catchwater/catchwater/services/catchwater"
	"github.com/catchwater/catchwater/services/ingress"
	"github.com/catchwater/catchwater/services/processor"
	"github.com/catchwater/catchwater/services/reconciler"
	"github.com/catchwater/catchwater/services/simulator"
)

// root is the top level of the repository.
const root = "../.."

// programs are what containers run, by the name of their target and entry point.
var programs = []string{"ingress", "processor", "reconciler", "simulator", "catchwater"}

// listening is where a service listens, by what its setting is called.
type listening map[string]string

// ports returns the ports, which must be reachable from outside the container.
func (l listening) ports(t *testing.T) []string {
	t.Helper()
	for setting, address := range l {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			t.Errorf("%s=%s: nobody outside the container reaches that", setting, address)
		}
	}
	return l.portsAnywhere(t)
}

// portsAnywhere returns the ports, whoever reaches them.
func (l listening) portsAnywhere(t *testing.T) []string {
	t.Helper()
	var ports []string
	for setting, address := range l {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Errorf("%s=%s: %v", setting, address, err)
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return ports
}

// healthPort is where /livez, /readyz and /metrics are.
func (l listening) healthPort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(l["CATCHWATER_HEALTH_LISTEN"])
	if err != nil {
		t.Errorf("CATCHWATER_HEALTH_LISTEN: %v", err)
	}
	return port
}

// configure does with an environment what a program does at its start: it must
// read every variable and accept every value. Variables in extra are read by
// others, such as the sources file. It returns where the program listens.
//
// It sets the environment of the process, so that tests which call it are not
// parallel.
func configure(t *testing.T, program string, environment map[string]string, extra []string) listening {
	t.Helper()
	var config any
	switch program {
	case "ingress":
		config = &ingress.Config{}
	case "processor":
		config = &processor.Config{}
	case "reconciler":
		config = &reconciler.Config{}
	case "simulator":
		config = &simulator.Config{}
	case "catchwater":
		known, err := catchwater.Environment()
		if err != nil {
			t.Fatal(err)
		}
		refuseUnknown(t, program, environment, append(known, extra...))
		return nil
	default:
		t.Fatalf("there is no program %q", program)
	}
	parser, err := kong.New(config, kong.Name(program))
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(extra)
	for _, flag := range parser.Model.Flags {
		known = append(known, flag.Envs...)
	}
	refuseUnknown(t, program, environment, known)
	for _, name := range known { // those of the machine are not those of the container
		former, was := os.LookupEnv(name)
		_ = os.Unsetenv(name)
		if was {
			t.Cleanup(func() { _ = os.Setenv(name, former) })
		}
	}
	for name, value := range environment {
		t.Setenv(name, value)
	}
	if _, err := parser.Parse(nil); err != nil {
		t.Errorf("%s does not take its settings: %v", program, err)
	}
	listens := make(listening)
	for _, flag := range parser.Model.Flags {
		if strings.HasSuffix(flag.Name, "listen") {
			listens[flag.Envs[0]] = fmt.Sprint(flag.Target.Interface())
		}
	}
	return listens
}

func refuseUnknown(t *testing.T, program string, environment map[string]string, known []string) {
	t.Helper()
	for name := range environment {
		if !slices.Contains(known, name) {
			t.Errorf("%s reads no variable %s", program, name)
		}
	}
}

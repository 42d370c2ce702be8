package catchwater

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/catchwater/catchwater/services/ingress"
	"github.com/catchwater/catchwater/services/processor"
	"github.com/catchwater/catchwater/services/reconciler"
	"github.com/catchwater/catchwater/services/simulator"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

const settingsPath = "../../docs/settings.md"

// TestSettingsReference holds docs/settings.md to the settings that there are.
func TestSettingsReference(t *testing.T) {
	t.Parallel()
	var doc strings.Builder
	doc.WriteString(`# Settings of the services

Every setting is an environment variable and a flag of the same meaning; the
flag wins. What stands in the sources file is described in [sources.md](sources.md),
what ` + "`catchwater`" + ` itself takes in [cli.md](cli.md). A setting that makes no sense
stops the service at its start, with an error that names it.

This page is written by ` + "`go test ./services/catchwater -run SettingsReference -update`" + `.
`)
	section(t, &doc, "ingress", &ingress.Config{})
	section(t, &doc, "processor", &processor.Config{})
	section(t, &doc, "reconciler", &reconciler.Config{})
	section(t, &doc, "simulator", &simulator.Config{})
	if *update {
		if err := os.WriteFile(settingsPath, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(settingsPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != doc.String() {
		t.Error("docs/settings.md is not what the settings are: run this test with -update")
	}
}

func section(t *testing.T, doc *strings.Builder, service string, config any) {
	t.Helper()
	parser, err := kong.New(config, kong.Name(service))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(doc, "\n## %s\n\n| environment | flag | default | what it is |\n| --- | --- | --- | --- |\n", service)
	for _, f := range parser.Model.Flags {
		if f.Name == "help" {
			continue
		}
		if len(f.Envs) == 0 || f.Help == "" {
			t.Errorf("%s: --%s has no environment variable, or no help", service, f.Name)
			continue
		}
		fallback := "none"
		if f.Default != "" {
			fallback = "`" + f.Default + "`"
		}
		fmt.Fprintf(doc, "| `%s` | `--%s` | %s | %s |\n", f.Envs[0], f.Name, fallback, f.Help)
	}
}

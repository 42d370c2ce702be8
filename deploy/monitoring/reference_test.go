package monitoring

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

var update = flag.Bool("update", false, "write docs/operations/metrics.md anew")

const referencePath = root + "/docs/operations/metrics.md"

const referenceHead = `# Metrics

What each service exposes on ` + "`/metrics`" + ` of its health port, beside Go's and the
process's own (` + "`go_*`, `process_*`" + `). Times are in seconds. The label ` + "`source`" + ` only has
the names of configured sources, so that nobody outside can make series; all counters
of a source are there from the start, at 0. What is shown of the tables is the same
on every processor: take the maximum, not the sum.

The dashboard "Catchwater" (` + "`deploy/grafana/dashboards`" + `) shows them, the alerts of
` + "`deploy/prometheus`" + ` watch them ([runbook.md](runbook.md)).

This page is written by ` + "`cd deploy/monitoring && GOWORK=off go test -run Queries -update`" + `
from what running services expose.
`

// holdReference holds docs/operations/metrics.md to what services expose.
func holdReference(t *testing.T, scrapes map[string]scrape) {
	t.Helper()
	var doc strings.Builder
	doc.WriteString(referenceHead)
	for _, job := range []string{"ingress", "processor", "reconciler", "simulator"} {
		fmt.Fprintf(&doc, "\n## %s\n\n| metric | type | what it is |\n| --- | --- | --- |\n", job)
		s := scrapes[job]
		for _, name := range slices.Sorted(maps.Keys(s.kinds)) {
			if strings.HasPrefix(name, "catchwater_") {
				fmt.Fprintf(&doc, "| `%s` | %s | %s |\n", name+labelNames(s, name), s.kinds[name], strings.ReplaceAll(s.help[name], "|", `\|`))
			}
		}
	}
	if *update {
		if err := os.WriteFile(referencePath, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != doc.String() {
		t.Errorf("docs/operations/metrics.md is not what the services expose: run this test with -update. It should be\n%s", doc.String())
	}
}

// holdDocs wants every metric that a page speaks of to be exposed.
func holdDocs(t *testing.T, scrapes map[string]scrape) {
	t.Helper()
	named := regexp.MustCompile("catchwater_(ingress|processor|reconciler|inbox|tasks|effects?|messages)_[a-z_0-9]+")
	err := filepath.WalkDir(root+"/docs", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range named.FindAllString(string(text), -1) {
			of := regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
			exposed := func(s scrape) bool { return s.kinds[name] != "" || s.kinds[of] == model.MetricTypeHistogram }
			if !slices.ContainsFunc(slices.Collect(maps.Values(scrapes)), exposed) && !strings.Contains(string(text), "source:"+name) {
				t.Errorf("%s speaks of %s, which no service exposes", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// labelNames are a metric's labels, in braces, but for those that every scrape and
// every histogram has.
func labelNames(s scrape, name string) string {
	names := make(map[string]bool)
	for _, sample := range s.samples {
		of := sample.labels.Get(model.MetricNameLabel)
		if of != name && (s.kinds[name] != model.MetricTypeHistogram || of != name+"_bucket") {
			continue
		}
		sample.labels.Range(func(l labels.Label) { names[l.Name] = true })
	}
	for _, common := range []string{model.MetricNameLabel, "job", "instance", "le"} {
		delete(names, common)
	}
	if len(names) == 0 {
		return ""
	}
	return "{" + strings.Join(slices.Sorted(maps.Keys(names)), ",") + "}"
}

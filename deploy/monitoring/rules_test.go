package monitoring

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	root        = "../.."
	rulesPath   = root + "/deploy/prometheus/catchwater.rules.yml"
	runbookPath = root + "/docs/operations/runbook.md"
	runbookURL  = "https://github.com/catchwater/catchwater/blob/main/docs/operations/runbook.md#"
)

var promQL = parser.NewParser(parser.Options{})

// readRules reads the rules as Prometheus does, strictly.
func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesPath, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	return slices.DeleteFunc(readRules(t), func(r rulefmt.Rule) bool { return r.Alert == "" })
}

// TestEveryAlertSaysWhatToDo holds alerts to the form that people rely on.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	seen := make(map[string]bool)
	for _, rule := range alerts(t) {
		if seen[rule.Alert] || !strings.HasPrefix(rule.Alert, "Catchwater") {
			t.Errorf("%s is no name, or is given twice", rule.Alert)
		}
		seen[rule.Alert] = true
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		if want := runbookURL + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("the runbook of %s is at %s, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
	}
}

// TestPostgresRulesAreRead reads the rules about Postgres, which the chart does not
// have, as Prometheus does.
func TestPostgresRulesAreRead(t *testing.T) {
	manifest, err := os.ReadFile(root + "/deploy/postgres/monitoring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(manifest), "kind: PrometheusRule")
	_, groups, _ := strings.Cut(rule, "\nspec:\n")
	read, errs := rulefmt.Parse([]byte(strings.ReplaceAll("\n"+groups, "\n  ", "\n")), false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(read.Groups) != 1 || len(read.Groups[0].Rules) == 0 {
		t.Fatalf("there are no rules:\n%s", groups)
	}
}

// TestTheRunbookIsAboutTheAlerts wants an entry for each alert, in their order,
// that says what it means, what to look at and what to do, and no other.
func TestTheRunbookIsAboutTheAlerts(t *testing.T) {
	text, err := os.ReadFile(runbookPath)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, rule := range alerts(t) {
		want = append(want, rule.Alert)
	}
	entries := regexp.MustCompile(`(?m)^## (.+)$`).Split(string(text), -1)[1:]
	for n, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1) {
		got = append(got, heading[1])
		for _, part := range []string{"**Means**", "**Look at**", "**Do**"} {
			if !strings.Contains(entries[n], part) {
				t.Errorf("the entry %s has no %s", heading[1], part)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the runbook has the entries\n%s\nand there are the alerts\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

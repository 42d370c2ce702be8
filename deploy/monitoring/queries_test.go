package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dashboardPath = root + "/deploy/grafana/dashboards/catchwater.json"

// dashboard is what is read of Grafana's JSON.
type dashboard struct {
	UID    string  `json:"uid"`
	Panels []panel `json:"panels"`

	Annotations struct {
		List []struct {
			Datasource datasource `json:"datasource"`
			Expr       string     `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []struct {
			Name       string     `json:"name"`
			Datasource datasource `json:"datasource"`
			Definition string     `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID         int        `json:"id"`
	Title      string     `json:"title"`
	Type       string     `json:"type"`
	Datasource datasource `json:"datasource"`
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct {
		Datasource datasource `json:"datasource"`
		Expr       string     `json:"expr"`

		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type datasource struct {
	UID string `json:"uid"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardPath)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", dashboardPath, err)
	}
	return d
}

// query is one that is asked of Prometheus, and by whom.
type query struct {
	by      string
	expr    string
	isPanel bool // which has something to show once there was traffic
	legend  string
}

// withVariables puts in what Grafana would.
func withVariables(expr string) string {
	return strings.NewReplacer("$source", ".+", "$__rate_interval", "5m").Replace(expr)
}

// queries are all of the rules' and the dashboard's.
func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, rule := range readRules(t) {
		all = append(all, query{by: "rule " + rule.Alert + rule.Record, expr: rule.Expr})
	}
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			all = append(all, query{by: "panel " + panel.Title, expr: withVariables(target.Expr), isPanel: true, legend: target.LegendFormat})
		}
	}
	return all
}

// TestTheDashboardIsInOrder holds the dashboard to what Grafana needs of it.
func TestTheDashboardIsInOrder(t *testing.T) {
	d := readDashboard(t)
	var sources []datasource
	ids, cells := make(map[int]bool), make(map[[2]int]string)
	for _, panel := range d.Panels {
		if ids[panel.ID] {
			t.Errorf("%s has the id of another panel", panel.Title)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %s, or beyond the edge", panel.Title, other)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type == "row" {
			continue
		}
		if len(panel.Targets) == 0 {
			t.Errorf("%s shows nothing", panel.Title)
		}
		sources = append(sources, panel.Datasource)
		for _, target := range panel.Targets {
			sources = append(sources, target.Datasource)
			if left := regexp.MustCompile(`\$\w+`).FindString(withVariables(target.Expr)); left != "" {
				t.Errorf("%s uses %s, which is no variable", panel.Title, left)
			}
		}
	}
	for _, annotation := range d.Annotations.List {
		sources = append(sources, annotation.Datasource)
		if _, err := promQL.ParseExpr(annotation.Expr); err != nil {
			t.Error(err)
		}
	}
	for _, variable := range d.Templating.List {
		sources = append(sources, variable.Datasource)
	}
	provisioned, err := os.ReadFile(root + "/deploy/grafana/provisioning/datasources/catchwater.yml")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(sources, func(a, b datasource) int { return strings.Compare(a.UID, b.UID) })
	for _, source := range slices.Compact(sources) {
		if !strings.Contains(string(provisioned), "uid: "+source.UID+",") {
			t.Errorf("there is no source of data %q", source.UID)
		}
	}
	if len(d.Templating.List) != 1 || d.Templating.List[0].Name != "source" || d.UID == "" {
		t.Error("the dashboard is not found, or not narrowed to a source")
	}
}

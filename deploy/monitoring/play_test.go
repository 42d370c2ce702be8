package monitoring

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// firing are the alerts that fire at a time, by name, each with its labels.
type firing map[string][]labels.Labels

// play feeds series to Prometheus' own rule manager and returns, for each
// evaluation, what fires. Series are in promtool's notation, a sample each step,
// and so are the evaluations.
func play(t *testing.T, step time.Duration, series string, steps int) []firing {
	t.Helper()
	suite, err := promqltest.NewLazyLoader("load "+step.String()+"\n"+series, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: promQL,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		AppendableV2: suite.Storage(),
		Context:      t.Context(),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		Logger:       slog.New(slog.DiscardHandler),
		Parser:       promQL,
	})
	loaded, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, rulesPath)
	for _, err := range errs {
		t.Fatal(err)
	}
	groups := inOrder(loaded)
	var history []firing
	for n := range steps {
		at := time.Unix(0, 0).UTC().Add(time.Duration(n) * step)
		now := make(firing)
		suite.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range groups {
				group.Eval(suite.Context(), at)
				for _, rule := range group.Rules() {
					if rule.LastError() != nil {
						t.Fatalf("%s at %s: %v", rule.Name(), at, rule.LastError())
					}
					collect(now, rule)
				}
			}
		})
		history = append(history, now)
	}
	return history
}

// inOrder returns the groups with that of the recorded series first, since
// alerts read them.
func inOrder(loaded map[string]*rules.Group) []*rules.Group {
	var recorded, others []*rules.Group
	for _, group := range loaded {
		if group.Name() == "catchwater-recorded" {
			recorded = append(recorded, group)
		} else {
			others = append(others, group)
		}
	}
	return append(recorded, others...)
}

func collect(now firing, rule rules.Rule) {
	alert, ok := rule.(*rules.AlertingRule)
	if !ok {
		return
	}
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			now[alert.Name()] = append(now[alert.Name()], active.Labels)
		}
	}
}

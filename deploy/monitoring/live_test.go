package monitoring

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
)

// scrapeEvery is the time between the scrapes that are made up of two.
const scrapeEvery = 15 * time.Second

// prometheus is Prometheus' own storage and engine, with what was scraped.
type prometheus struct {
	*teststorage.TestStorage
	engine *promql.Engine
	now    time.Time
}

// load stores the earlier scrapes as if they had been repeated for an hour and the
// later ones for four minutes, and runs the recording rules over them.
func load(t *testing.T, earlier, later map[string]scrape) prometheus {
	t.Helper()
	p := prometheus{TestStorage: teststorage.New(t), engine: promqltest.NewTestEngine(t, false, 0, 1_000_000)}
	p.now = time.Now()
	began := p.now.Add(-time.Hour)
	for at := began; !at.After(p.now); at = at.Add(scrapeEvery) {
		scrapes := earlier
		if p.now.Sub(at) < 4*time.Minute {
			scrapes = later
		}
		appender := p.Appender(t.Context())
		for _, s := range scrapes {
			for _, sample := range s.samples {
				if _, err := appender.Append(0, sample.labels, at.UnixMilli(), sample.value); err != nil {
					t.Fatalf("store %s: %v", sample.labels, err)
				}
			}
		}
		if err := appender.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(p.engine, p), AppendableV2: p, Context: t.Context(), Parser: promQL,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
	})
	groups, errs := manager.LoadGroups(scrapeEvery, labels.EmptyLabels(), "", nil, false, rulesPath)
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, at := range []time.Time{p.now.Add(-scrapeEvery), p.now} {
		for _, group := range inOrder(groups) {
			group.Eval(t.Context(), at)
			for _, rule := range group.Rules() {
				if rule.LastError() != nil {
					t.Errorf("%s: %v", rule.Name(), rule.LastError())
				}
			}
		}
	}
	return p
}

// has returns series that match.
func (p prometheus) has(t *testing.T, matchers ...*labels.Matcher) []labels.Labels {
	t.Helper()
	querier, err := p.Querier(0, p.now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	var found []labels.Labels
	set := querier.Select(t.Context(), false, nil, matchers...)
	for set.Next() {
		found = append(found, set.At().Labels())
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return found
}

// TestQueriesAreAboutWhatServicesExpose runs real services, and every query of the
// rules and the dashboard over what they expose. It also holds the reference of
// metrics to that.
func TestQueriesAreAboutWhatServicesExpose(t *testing.T) {
	t.Parallel()
	var earlier map[string]scrape
	r := run(t, func(r running) { earlier = r.scrapes(t) })
	r.awaitSample(t, "processor", `catchwater_inbox_rows{source="answers",state="quarantined"}`, 1)
	r.awaitSample(t, "processor", `catchwater_inbox_rows{source="mail",state="waiting"}`, 1)
	r.awaitSample(t, "processor", `catchwater_messages_stuck{source="mail"}`, 1)
	r.awaitSample(t, "processor", `catchwater_effects_total{source="mail",effect="crm",outcome="performed"}`, 1)
	r.awaitSample(t, "processor", `catchwater_effects_pending{source="mail"}`, 0)
	r.awaitSample(t, "reconciler", `catchwater_reconciler_recovered_total{source="mail"}`, 1)
	r.awaitSample(t, "reconciler", `catchwater_reconciler_last_upkeep_timestamp_seconds`, 1)
	r.awaitSample(t, "reconciler", `catchwater_tasks_open{source="answers"}`, 1)
	r.awaitSample(t, "reconciler", `catchwater_tasks_open{source="mail"}`, 1)
	later := r.scrapes(t)
	holdReference(t, later)
	holdDocs(t, later)

	p := load(t, earlier, later)
	for _, q := range queries(t) {
		expr, err := promQL.ParseExpr(q.expr)
		if err != nil {
			t.Errorf("%s: %v", q.by, err)
			continue
		}
		p.checkNames(t, q, expr)
		p.checkRuns(t, q)
	}
	variable := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(readDashboard(t).Templating.List[0].Definition)
	if len(variable) == 0 || !hasLabel(p.has(t, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, variable[1])), variable[2]) {
		t.Error("the dashboard's variable has no values")
	}
	p.checkSeen(t)
}

// checkNames wants series for each selector of a query, for each value that a
// matcher lists, and with each label that is grouped by.
func (p prometheus) checkNames(t *testing.T, q query, expr parser.Expr) {
	t.Helper()
	var found []labels.Labels
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, matchers := range eachValue(selector.LabelMatchers) {
			series := p.has(t, matchers...)
			if len(series) == 0 {
				t.Errorf("%s: nothing is exposed that matches %v", q.by, matchers)
			}
			found = append(found, series...)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var grouped []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouped = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range grouped {
			if !hasLabel(found, label) {
				t.Errorf("%s: no series has the label %s", q.by, label)
			}
		}
		return nil
	})
}

// eachValue are the matchers once for each value that one of them lists.
func eachValue(matchers []*labels.Matcher) [][]*labels.Matcher {
	all := [][]*labels.Matcher{nil}
	for _, m := range matchers {
		choices := []*labels.Matcher{m}
		if values := m.SetMatches(); m.Type == labels.MatchRegexp && len(values) > 0 {
			choices = nil
			for _, value := range values {
				choices = append(choices, labels.MustNewMatcher(labels.MatchEqual, m.Name, value))
			}
		}
		var next [][]*labels.Matcher
		for _, some := range all {
			for _, choice := range choices {
				next = append(next, append(slices.Clone(some), choice))
			}
		}
		all = next
	}
	return all
}

func hasLabel(series []labels.Labels, label string) bool {
	return slices.ContainsFunc(series, func(l labels.Labels) bool { return l.Has(label) })
}

// evaluate runs a query now.
func (p prometheus) evaluate(t *testing.T, expr string) promql.Vector {
	t.Helper()
	q, err := p.engine.NewInstantQuery(t.Context(), p, nil, expr, p.now)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", expr, result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return vector
}

// checkRuns wants a query to be evaluated, and a panel to have something to show.
func (p prometheus) checkRuns(t *testing.T, q query) {
	t.Helper()
	vector := p.evaluate(t, q.expr)
	if !q.isPanel {
		return
	}
	if len(vector) == 0 {
		t.Errorf("%s shows nothing, by %s", q.by, q.expr)
		return
	}
	for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.legend, -1) {
		if !vector[0].Metric.Has(label[1]) {
			t.Errorf("%s names its lines by %s, which %s does not have", q.by, label[1], vector[0].Metric)
		}
	}
}

// checkSeen wants the alerts about what happened in the run to see it, by the
// first event of its kind, and those about what did not happen to be silent.
func (p prometheus) checkSeen(t *testing.T) {
	t.Helper()
	seen := map[string]string{
		"CatchwaterConflicts": "answers", "CatchwaterQuarantine": "answers", "CatchwaterRecovered": "mail",
		"CatchwaterPollsUnusable": "answers",
	}
	// But for those that a slow machine could bring about.
	silent := "CatchwaterBodiesRefused CatchwaterIngressFull CatchwaterBacklogAge CatchwaterBacklogUnknown CatchwaterBatchesFailing CatchwaterEffectsGivenUp CatchwaterEffectsLate " +
		"CatchwaterPollsUnauthorized CatchwaterPollsLimited CatchwaterScanStalled CatchwaterUpkeepStalled CatchwaterServiceDown " +
		"CatchwaterInstanceUnready CatchwaterNoLeader"
	for _, rule := range alerts(t) {
		vector := p.evaluate(t, rule.Expr)
		if source := seen[rule.Alert]; source != "" &&
			!slices.ContainsFunc(vector, func(s promql.Sample) bool { return s.Metric.Get("source") == source }) {
			t.Errorf("%s does not see what happened at %s", rule.Alert, source)
		}
		if slices.Contains(strings.Fields(silent), rule.Alert) && len(vector) > 0 {
			t.Errorf("%s sees what did not happen: %v", rule.Alert, vector)
		}
	}
}

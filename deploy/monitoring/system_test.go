package monitoring

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/catchwater/catchwater/test/harness"
)

// running is a system of real services that has seen a bit of everything.
type running struct {
	*harness.System
	services map[string]*harness.Service // by job
}

// scrape is what a service exposed.
type scrape struct {
	samples []sample
	kinds   map[string]model.MetricType
	help    map[string]string
}

type sample struct {
	labels labels.Labels // with job and instance
	value  float64
}

const waitLong = 90 * time.Second

// run starts every service, calls before with it, and makes one of everything that
// the rules and the dashboard look at.
func run(t *testing.T, before func(running)) running {
	t.Helper()
	s := harness.New(t)
	receiver := harness.NewReceiver(t)
	const sources = `sources:
  answers:
    preset: answerline
    secrets: [{env: ANSWERLINE_SECRET}]
%s  mail:
    preset: koltrix
    secrets: [{env: KOLTRIX_SECRET}]
%s`
	s.Configure(fmt.Sprintf(sources, "", ""))
	ingress := s.StartService("ingress")
	simulator, provider := s.Simulator(ingress.Addr)
	const reconcile = "    reconcile: {base_url: 'http://%s', token: {env: %s}, after: 100ms, rate: 200, interval: 200ms}\n"
	s.Configure(fmt.Sprintf(sources, fmt.Sprintf(reconcile, simulator.Addr, "ANSWERLINE_API_KEY"),
		fmt.Sprintf(reconcile, simulator.Addr, "KOLTRIX_API_KEY")+
			fmt.Sprintf("    effects: [{name: crm, statuses: [bounced], http: {url: '%s', secret: {env: EFFECT_SECRET}}}]\n", receiver.URL)))
	r := running{System: s, services: map[string]*harness.Service{
		"ingress": ingress, "simulator": provider,
		"processor":  s.StartService("processor"),
		"reconciler": s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=200ms"),
	}}
	r.awaitSample(t, "ingress", "catchwater_ingress_broker_up", 1)
	r.awaitSample(t, "processor", "catchwater_processor_doorbell_up", 1)
	r.awaitSample(t, "reconciler", "catchwater_reconciler_leader", 1)
	before(r)

	simulator.Burst(50, 0)
	post := func(id, status string, secret string, want int) {
		t.Helper()
		body := harness.Task(id, id, status, "2026-11-30T10:00:00Z")
		if got := harness.Post(t, ingress.Addr, "/hooks/answers", body, secret); got != want {
			t.Fatalf("the delivery %s is answered %d, want %d", id, got, want)
		}
	}
	post("task-1", "COMPLETED", harness.Secret, http.StatusNoContent)
	post("task-1", "COMPLETED", harness.Secret, http.StatusNoContent) // a duplicate
	post("task-1", "FAILED", harness.Secret, http.StatusNoContent)    // a conflict
	post("task-2", "COMPLETED", "whsec_of_somebody_else", http.StatusBadRequest)
	for _, body := range []string{`{"test":true,"task":{"id":"t"}}`, "not JSON"} { // a test, and one for quarantine
		if got := harness.Post(t, ingress.Addr, "/hooks/answers", []byte(body), harness.Secret); got != http.StatusNoContent {
			t.Fatalf("%s is answered %d", body, got)
		}
	}
	s.Exec("insert into submitted_tasks (source, task_id) values ('answers', 'unknown')")
	s.Exec("insert into messages (source, message_id) values ('mail', 'm1'), ('mail', 'lost'), ('mail', 'silent')")
	for _, message := range []string{"m1", "nobody-knows"} { // one has an effect, one waits
		happening := harness.Happening{Message: message, Event: "bounced", At: 1767323045}
		if got, err := harness.PostKoltrix(ingress.Addr, "/hooks/mail", happening.Body(), harness.Secret); err != nil || got != http.StatusNoContent {
			t.Fatalf("an event is answered %d, %v", got, err)
		}
	}
	history := []map[string]any{{"event": "sent"}, {"event": "delivered", "noDelivery": true}}
	if got := simulator.Call(http.MethodPost, "/control/koltrix/messages", map[string]any{"message_id": "lost", "to": []string{"a@example.org"}, "history": history}, nil); got >= 300 {
		t.Fatalf("making a message is answered %d", got)
	}
	s.AwaitInt(waitLong, 51, "select count(*) from answers")
	s.AwaitInt(waitLong, 1, "select count(*) from effects where state = 'performed'")
	s.AwaitInt(waitLong, 1, "select count(*) from inbox where state = 'waiting'")
	s.AwaitInt(waitLong, 1, "select count(*) from messages where message_id = 'lost' and final")
	s.AwaitInt(waitLong, 1, "select count(*) from submitted_tasks where task_id = 'unknown' and last_poll_result like '404%'")
	return r
}

// scrapeOf reads a service's metrics with Prometheus' own parser.
func (r running) scrapeOf(job string) (scrape, error) {
	service := r.services[job]
	addr := service.HealthAddr
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return scrape{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return scrape{}, err
	}
	parser, err := textparse.New(text, response.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return scrape{}, err
	}
	up := labels.FromStrings(model.MetricNameLabel, "up", "job", job, "instance", addr)
	s := scrape{samples: []sample{{up, 1}}, kinds: make(map[string]model.MetricType), help: make(map[string]string)}
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil:
			return scrape{}, fmt.Errorf("parse the metrics of %s: %w", job, err)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := parser.Type()
			s.kinds[string(name)] = kind
		case textparse.EntryHelp:
			name, help := parser.Help()
			s.help[string(name)] = string(help)
		case textparse.EntrySeries:
			var of labels.Labels
			parser.Labels(&of)
			_, _, value := parser.Series()
			s.samples = append(s.samples, sample{labels.NewBuilder(of).Set("job", job).Set("instance", addr).Labels(), value})
		}
	}
}

// scrapes reads all services' metrics.
func (r running) scrapes(t *testing.T) map[string]scrape {
	t.Helper()
	all := make(map[string]scrape)
	for job := range r.services {
		s, err := r.scrapeOf(job)
		if err != nil {
			t.Fatal(err)
		}
		all[job] = s
	}
	return all
}

// awaitSample returns when a service exposes a sample with these labels and this
// value.
func (r running) awaitSample(t *testing.T, job, selector string, value float64) {
	t.Helper()
	matchers, err := promQL.ParseMetricSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, waitLong, selector, func() error {
		s, err := r.scrapeOf(job)
		if err != nil {
			return err
		}
		for _, sample := range s.samples {
			if matches(sample.labels, matchers) && sample.value >= value {
				return nil
			}
		}
		return fmt.Errorf("none is %v or more", value)
	})
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

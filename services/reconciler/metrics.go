package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/tasks"
)

// metrics are what the service counts. Both labels have few values: configured
// sources, and the results named in verdict.go.
type metrics struct {
	polls       *prometheus.CounterVec
	recovered   *prometheus.CounterVec
	open        *prometheus.GaugeVec
	overdue     *prometheus.GaugeVec
	pastHorizon *prometheus.GaugeVec
	scanned     *prometheus.GaugeVec
	upkeep      prometheus.Gauge
	leading     prometheus.Gauge
}

// newMetrics registers the metrics. Every source's counters begin at 0, so that
// the first event of its kind is seen as an increase.
func newMetrics(registry prometheus.Registerer, providers []*provider) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help + " Only the leader shows it."}, []string{"source"})
	}
	m := &metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_reconciler_polls_total", Help: "Questions to the provider, by source and result: final, not_final, not_found, too_many_requests, unauthorized, server_error, no_answer, refused or unusable.",
		}, []string{"source", "result"}),
		recovered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_reconciler_recovered_total", Help: "Results and events that came only by asking: their deliveries were lost or late.",
		}, []string{"source"}),
		open:        gauge("catchwater_tasks_open", "Submitted tasks without a result, and registered messages without a final status that are older than the source's after."),
		overdue:     gauge("catchwater_tasks_overdue", "Of those, the ones that are asked for."),
		pastHorizon: gauge("catchwater_tasks_past_horizon", "Of those, the ones that need investigation: the provider must have ended or given up."),
		scanned:     gauge("catchwater_reconciler_last_scan_timestamp_seconds", "When the latest scan for what is overdue came to its end, in seconds since 1970."),
		upkeep: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "catchwater_reconciler_last_upkeep_timestamp_seconds",
			Help: "When payload partitions were last made ahead and expired ones dropped, all without an error, in seconds since 1970; 0 on a reconciler that has not done it.",
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "catchwater_reconciler_leader", Help: "1 on the reconciler that leads, else 0.",
		}),
	}
	registry.MustRegister(m.polls, m.recovered, m.open, m.overdue, m.pastHorizon, m.scanned, m.upkeep, m.leading)
	for _, p := range providers {
		for _, kind := range kinds {
			m.polls.WithLabelValues(p.source.Name, kind)
		}
		m.recovered.WithLabelValues(p.source.Name)
	}
	return m
}

func (m *metrics) setCounts(source string, c tasks.Counts) {
	m.open.WithLabelValues(source).Set(float64(c.Open))
	m.overdue.WithLabelValues(source).Set(float64(c.Overdue))
	m.pastHorizon.WithLabelValues(source).Set(float64(c.PastHorizon))
}

// stopLeading takes away what only a leader knows.
func (m *metrics) stopLeading() {
	m.leading.Set(0)
	for _, gauge := range []*prometheus.GaugeVec{m.open, m.overdue, m.pastHorizon, m.scanned} {
		gauge.Reset()
	}
}

package processor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/source"
)

// openStates are the states of a row that is not processed.
var openStates = []string{"pending", "waiting", "quarantined"}

// backlogMetrics are what the tables hold that is not done. Every processor shows
// them, and all the same.
type backlogMetrics struct {
	rows    *tableGauge
	oldest  *tableGauge
	orphans *tableGauge
	stuck   *tableGauge
	counted prometheus.Gauge
}

func newBacklogMetrics(registry prometheus.Registerer, sources []*source.Source) *backlogMetrics {
	const maximum = " Every processor shows the whole table's: take the maximum."
	var states, ofMessages []labelValues
	for _, s := range sources {
		for _, state := range openStates {
			states = append(states, labelValues{s.Name, state})
		}
		if s.Messages != nil {
			ofMessages = append(ofMessages, labelValues{s.Name})
		}
	}
	m := &backlogMetrics{
		rows: newTableGauge("catchwater_inbox_rows",
			"Inbox rows not processed, by source and state: pending, waiting or quarantined."+maximum, states, "source", "state"),
		oldest: newTableGauge("catchwater_inbox_oldest_seconds",
			"Age of the oldest inbox row not processed, since its receipt, by source and state, in seconds."+maximum, states, "source", "state"),
		orphans: newTableGauge("catchwater_inbox_orphans",
			"Inbox rows that have waited for longer than the source's orphan_after."+maximum, ofMessages, "source"),
		stuck: newTableGauge("catchwater_messages_stuck",
			"Registered messages that have had no final status for longer than the source's reconcile.after, or its orphan_after where the provider is not asked."+maximum, ofMessages, "source"),
		counted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "catchwater_inbox_counted_timestamp_seconds",
			Help: "When the tables were last counted, in seconds since 1970: while that is long ago, the gauges of what they hold are out of date.",
		}),
	}
	registry.MustRegister(m.rows, m.oldest, m.orphans, m.stuck, m.counted)
	return m
}

func (m *backlogMetrics) show(backlog []inbox.Backlog, orphans, stuck map[string]int64, at time.Time) {
	rows, oldest := make(map[labelValues]float64), make(map[labelValues]float64)
	for _, b := range backlog {
		rows[labelValues{b.Source, b.State}] = float64(b.Rows)
		oldest[labelValues{b.Source, b.State}] = b.OldestAge.Seconds()
	}
	m.rows.show(rows)
	m.oldest.show(oldest)
	m.orphans.show(bySource(orphans))
	m.stuck.show(bySource(stuck))
	m.counted.Set(float64(at.Unix()))
}

func bySource(counts map[string]int64) map[labelValues]float64 {
	values := make(map[labelValues]float64, len(counts))
	for name, n := range counts {
		values[labelValues{name}] = float64(n)
	}
	return values
}

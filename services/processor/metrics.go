package processor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// metrics are what the service counts. The label source only ever has values
// that stand in the inbox, which only verified deliveries enter.
type metrics struct {
	rows      *prometheus.CounterVec
	attempts  prometheus.Histogram
	lag       *prometheus.HistogramVec
	batchTime prometheus.Histogram
	batchRows *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	doorbell  prometheus.GaugeFunc

	backlog *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	orphans *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer, doorbellWorks func() bool) *metrics {
	m := &metrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_processor_rows_total",
			Help: "Inbox rows by source and what an attempt made of them: processed, waiting (for its subject to be known), failed (to be tried again) or quarantined.",
		}, []string{"source", "outcome"}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "catchwater_processor_attempts", Help: "Attempts that a row took until it was processed.",
			Buckets: []float64{1, 2, 3, 5, 10, 20},
		}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "catchwater_processor_lag_seconds", Help: "Time from a row's receipt until it was processed.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
		}, []string{"source"}),
		batchTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "catchwater_processor_batch_duration_seconds", Help: "Time from claiming a batch to its commit.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 14),
		}),
		batchRows: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "catchwater_processor_batch_rows", Help: "Rows in a batch, by what led to it: doorbell or scan.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		}, []string{"via"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_processor_batch_failures_total", Help: "Batches that were rolled back whole, by what led to them.",
		}, []string{"via"}),
		doorbell: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_processor_doorbell_up", Help: "1 while the broker tells this processor of new rows, else 0.",
		}, func() float64 {
			if doorbellWorks() {
				return 1
			}
			return 0
		}),
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_inbox_rows", Help: "Inbox rows not processed, by source and state. Every processor shows the whole table's: take the maximum.",
		}, []string{"source", "state"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_inbox_oldest_seconds", Help: "Age of the oldest inbox row not processed, by source and state, in seconds.",
		}, []string{"source", "state"}),
		orphans: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_inbox_orphans", Help: "Inbox rows that have waited for longer than the source's orphan_after. Every processor shows the whole table's: take the maximum.",
		}, []string{"source"}),
	}
	registry.MustRegister(m.rows, m.attempts, m.lag, m.batchTime, m.batchRows, m.failed, m.doorbell, m.backlog, m.oldest, m.orphans)
	return m
}

func (m *metrics) processed(result outcome, took time.Duration, now time.Time) {
	m.batchTime.Observe(took.Seconds())
	open := make(map[int64]string, len(result.failures)+len(result.waiting))
	for _, failure := range result.failures {
		open[failure.ID] = outcomeOf(failure)
	}
	for _, wait := range result.waiting {
		open[wait.ID] = "waiting"
	}
	for _, row := range result.rows {
		if outcome := open[row.ID]; outcome != "" {
			m.rows.WithLabelValues(row.Source, outcome).Inc()
			continue
		}
		m.rows.WithLabelValues(row.Source, "processed").Inc()
		m.attempts.Observe(float64(row.Attempts + 1))
		m.lag.WithLabelValues(row.Source).Observe(now.Sub(row.ReceivedAt).Seconds())
	}
}

func (m *metrics) setBacklog(backlog []inbox.Backlog) {
	m.backlog.Reset()
	m.oldest.Reset()
	for _, b := range backlog {
		m.backlog.WithLabelValues(b.Source, b.State).Set(float64(b.Rows))
		m.oldest.WithLabelValues(b.Source, b.State).Set(b.OldestAge.Seconds())
	}
}

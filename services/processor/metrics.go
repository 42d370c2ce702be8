package processor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/source"
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
}

// What an attempt makes of a row.
const (
	rowProcessed   = "processed"
	rowWaiting     = "waiting"
	rowFailed      = "failed"
	rowQuarantined = "quarantined"
)

// newMetrics registers the metrics. Every source's counters begin at 0, so that
// the first event of its kind is seen as an increase.
func newMetrics(registry prometheus.Registerer, sources []*source.Source, doorbellWorks func() bool) *metrics {
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
	}
	registry.MustRegister(m.rows, m.attempts, m.lag, m.batchTime, m.batchRows, m.failed, m.doorbell)
	for _, s := range sources {
		for _, outcome := range []string{rowProcessed, rowWaiting, rowFailed, rowQuarantined} {
			m.rows.WithLabelValues(s.Name, outcome)
		}
		m.lag.WithLabelValues(s.Name)
	}
	for _, via := range []string{viaDoorbell, viaScan} {
		m.batchRows.WithLabelValues(via)
		m.failed.WithLabelValues(via)
	}
	return m
}

func (m *metrics) processed(result outcome, took time.Duration, now time.Time) {
	m.batchTime.Observe(took.Seconds())
	open := make(map[int64]string, len(result.failures)+len(result.waiting))
	for _, failure := range result.failures {
		open[failure.ID] = outcomeOf(failure)
	}
	for _, wait := range result.waiting {
		open[wait.ID] = rowWaiting
	}
	for _, row := range result.rows {
		if outcome := open[row.ID]; outcome != "" {
			m.rows.WithLabelValues(row.Source, outcome).Inc()
			continue
		}
		m.rows.WithLabelValues(row.Source, rowProcessed).Inc()
		m.attempts.Observe(float64(row.Attempts + 1))
		m.lag.WithLabelValues(row.Source).Observe(now.Sub(row.ReceivedAt).Seconds())
	}
}

package ingress

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the service counts. The label source only ever has the
// names of configured sources, so probes cannot make series.
type metrics struct {
	deliveries       *prometheus.CounterVec
	duration         *prometheus.HistogramVec
	unknown          prometheus.Counter
	announceFailures prometheus.Counter
	batchRows        prometheus.Histogram
	batchTime        prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer, queued func() int, bodyBytes func() int64) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_ingress_deliveries_total",
			Help: "Deliveries by source and outcome: stored, duplicate, conflict (a duplicate whose body differs), quarantined, test, rejected_*, unavailable, failed. A body with several events counts once for each.",
		}, []string{"source", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "catchwater_ingress_answer_duration_seconds", Help: "Time from a request's headers to its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"source"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "catchwater_ingress_unknown_source_total", Help: "Requests for a source that is not configured.",
		}),
		announceFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "catchwater_ingress_announce_failures_total",
			Help: "New rows that the broker was not told of, or did not say it knows of; processors find them by scanning.",
		}),
		batchRows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "catchwater_ingress_batch_rows", Help: "Deliveries in one insert.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		batchTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "catchwater_ingress_batch_duration_seconds", Help: "Time for one insert, commit included.",
			Buckets: prometheus.ExponentialBuckets(.0005, 2, 14),
		}),
	}
	registry.MustRegister(m.deliveries, m.duration, m.unknown, m.announceFailures, m.batchRows, m.batchTime,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_ingress_queued", Help: "Deliveries waiting to be written.",
		}, func() float64 { return float64(queued()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_ingress_body_bytes", Help: "Bytes of bodies held in memory.",
		}, func() float64 { return float64(bodyBytes()) }))
	return m
}

func (m *metrics) observe(source string, a answer, took time.Duration) {
	for _, outcome := range a.events {
		m.deliveries.WithLabelValues(source, outcome).Inc()
	}
	if len(a.events) == 0 {
		m.deliveries.WithLabelValues(source, a.outcome).Inc()
	}
	m.duration.WithLabelValues(source).Observe(took.Seconds())
}

func (m *metrics) flushed(rows int, took time.Duration) {
	m.batchRows.Observe(float64(rows))
	m.batchTime.Observe(took.Seconds())
}

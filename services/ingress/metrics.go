package ingress

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/signature"
)

// metrics are what the service counts. The label source only ever has the
// names of configured sources, so probes cannot make series.
type metrics struct {
	deliveries       *prometheus.CounterVec
	accepted         *prometheus.GaugeVec
	duration         *prometheus.HistogramVec
	unknown          prometheus.Counter
	announceFailures prometheus.Counter
	batchRows        prometheus.Histogram
	batchTime        prometheus.Histogram
}

// outcomes are all that a delivery can come to.
func outcomes() []string {
	all := []string{
		inbox.Stored.String(), inbox.Duplicate.String(), inbox.Conflict.String(), outcomeQuarantined, outcomeTest,
		outcomeUnavailable, outcomeFailed, rejectedTooLarge, rejectedEncoding, rejectedBody,
	}
	for _, reason := range signature.Reasons() {
		all = append(all, rejected(reason))
	}
	return all
}

// present is what is asked for at each scrape.
type present struct {
	queued    func() int
	bodyBytes func() int64
	connected func() bool
}

// newMetrics registers the metrics. Every source's counters begin at 0, so that
// the first event of its kind is seen as an increase.
func newMetrics(registry prometheus.Registerer, cfg Config, sources []string, now present) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_ingress_deliveries_total",
			Help: "Deliveries by source and outcome: stored, duplicate, conflict (a duplicate whose body differs), quarantined, test, rejected_*, unavailable, failed. A body with several events counts once for each.",
		}, []string{"source", "outcome"}),
		accepted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_ingress_last_accepted_timestamp_seconds",
			Help: "When the latest delivery was answered with 2xx, tests and duplicates included, in seconds since 1970. Not there before the first.",
		}, []string{"source"}),
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
	registry.MustRegister(m.deliveries, m.accepted, m.duration, m.unknown, m.announceFailures, m.batchRows, m.batchTime,
		constant("catchwater_ingress_queue_limit", "Deliveries that may wait to be written; past it the answer is 503.", float64(cfg.QueueRows)),
		constant("catchwater_ingress_body_limit_bytes", "Bytes of bodies that may be held in memory; past it the answer is 503.", float64(cfg.BodyMemory)),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_ingress_broker_up", Help: "1 while the broker can be reached, so that new rows are announced, else 0.",
		}, func() float64 {
			if now.connected() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_ingress_queued", Help: "Deliveries waiting to be written.",
		}, func() float64 { return float64(now.queued()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "catchwater_ingress_body_bytes", Help: "Bytes of bodies held in memory.",
		}, func() float64 { return float64(now.bodyBytes()) }))
	for _, source := range sources {
		for _, outcome := range outcomes() {
			m.deliveries.WithLabelValues(source, outcome)
		}
		m.duration.WithLabelValues(source)
	}
	return m
}

// constant is a gauge of a setting.
func constant(name, help string, value float64) prometheus.Collector {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	gauge.Set(value)
	return gauge
}

func (m *metrics) observe(source string, a answer, at time.Time, took time.Duration) {
	if a.status == http.StatusNoContent {
		m.accepted.WithLabelValues(source).Set(float64(at.Unix()))
	}
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

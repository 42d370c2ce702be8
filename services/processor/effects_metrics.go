package processor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/effects"
)

// effectMetrics are what the performer counts. The labels source and effect only
// ever have values that stand in the table, which the sources file brings there.
type effectMetrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	pending *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	givenUp *prometheus.GaugeVec
}

func newEffectMetrics(registry prometheus.Registerer) *effectMetrics {
	labels := []string{"source", "effect"}
	m := &effectMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "catchwater_effects_total",
			Help: "Calls of effects by what came of them: performed, failed or refused (to be tried again), given_up.",
		}, []string{"source", "effect", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "catchwater_effect_duration_seconds", Help: "Time that a call took, whatever came of it.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, labels),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_effects_pending", Help: "Effects to be performed. Every processor shows the whole table's: take the maximum.",
		}, labels),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_effects_oldest_seconds", Help: "Age of the oldest effect to be performed, since its event was processed, in seconds.",
		}, labels),
		givenUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "catchwater_effects_given_up", Help: "Effects that were given up and want a person. Every processor shows the whole table's: take the maximum.",
		}, labels),
	}
	registry.MustRegister(m.calls, m.duration, m.pending, m.oldest, m.givenUp)
	return m
}

func (m *effectMetrics) performed(a attempt, outcome string) {
	m.calls.WithLabelValues(a.Call.Source, a.Call.Name, outcome).Inc()
	m.duration.WithLabelValues(a.Call.Source, a.Call.Name).Observe(a.took.Seconds())
}

func (m *effectMetrics) setBacklog(backlog []effects.Backlog) {
	m.pending.Reset()
	m.oldest.Reset()
	m.givenUp.Reset()
	for _, b := range backlog {
		if b.State == effects.GivenUp {
			m.givenUp.WithLabelValues(b.Source, b.Name).Set(float64(b.Effects))
			continue
		}
		m.pending.WithLabelValues(b.Source, b.Name).Set(float64(b.Effects))
		m.oldest.WithLabelValues(b.Source, b.Name).Set(b.OldestAge.Seconds())
	}
}

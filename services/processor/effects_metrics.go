package processor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/source"
)

// effectMetrics are what the performer counts. The labels source and effect only
// ever have values that stand in the table, which the sources file brings there.
type effectMetrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	pending *tableGauge
	oldest  *tableGauge
	givenUp *tableGauge
}

// What comes of a call.
const (
	callPerformed = "performed"
	callFailed    = "failed"
	callRefused   = "refused"
	callGivenUp   = "given_up"
)

func newEffectMetrics(registry prometheus.Registerer, sources []*source.Source) *effectMetrics {
	const maximum = " Every processor shows the whole table's: take the maximum."
	var known []labelValues
	for _, s := range sources {
		for _, e := range s.Effects {
			if !e.Transaction { // that is no call
				known = append(known, labelValues{s.Name, e.Name})
			}
		}
	}
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
		pending: newTableGauge("catchwater_effects_pending", "Effects to be performed."+maximum, known, labels...),
		oldest: newTableGauge("catchwater_effects_oldest_seconds",
			"Age of the oldest effect to be performed, since its event was processed, in seconds."+maximum, known, labels...),
		givenUp: newTableGauge("catchwater_effects_given_up", "Effects that were given up and want a person."+maximum, known, labels...),
	}
	registry.MustRegister(m.calls, m.duration, m.pending, m.oldest, m.givenUp)
	for _, l := range known {
		for _, outcome := range []string{callPerformed, callFailed, callRefused, callGivenUp} {
			m.calls.WithLabelValues(l[0], l[1], outcome)
		}
		m.duration.WithLabelValues(l[0], l[1])
	}
	return m
}

func (m *effectMetrics) performed(a attempt, outcome string) {
	m.calls.WithLabelValues(a.Call.Source, a.Call.Name, outcome).Inc()
	m.duration.WithLabelValues(a.Call.Source, a.Call.Name).Observe(a.took.Seconds())
}

func (m *effectMetrics) setBacklog(backlog []effects.Backlog) {
	pending, oldest, givenUp := make(map[labelValues]float64), make(map[labelValues]float64), make(map[labelValues]float64)
	for _, b := range backlog {
		labels := labelValues{b.Source, b.Name}
		if b.State == effects.GivenUp {
			givenUp[labels] = float64(b.Effects)
			continue
		}
		pending[labels], oldest[labels] = float64(b.Effects), b.OldestAge.Seconds()
	}
	m.pending.show(pending)
	m.oldest.show(oldest)
	m.givenUp.show(givenUp)
}

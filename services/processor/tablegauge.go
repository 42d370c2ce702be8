package processor

import (
	"maps"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// tableGauge shows what a table was last seen to hold. Whoever scrapes it sees the
// whole of one count, and before the first count nothing: what is not known is not
// shown as 0.
type tableGauge struct {
	desc   *prometheus.Desc
	labels int
	known  []labelValues // shown as 0 when the table has none of them
	last   atomic.Pointer[map[labelValues]float64]
}

// labelValues are the values of up to two labels; the second is empty where there
// is one.
type labelValues [2]string

func newTableGauge(name, help string, known []labelValues, labels ...string) *tableGauge {
	return &tableGauge{desc: prometheus.NewDesc(name, help, labels, nil), labels: len(labels), known: known}
}

// show replaces all that is shown.
func (g *tableGauge) show(counted map[labelValues]float64) {
	values := make(map[labelValues]float64, len(g.known)+len(counted))
	for _, labels := range g.known {
		values[labels] = 0
	}
	maps.Copy(values, counted)
	g.last.Store(&values)
}

// Describe implements prometheus.Collector.
func (g *tableGauge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g *tableGauge) Collect(to chan<- prometheus.Metric) {
	values := g.last.Load()
	if values == nil {
		return
	}
	for labels, value := range *values {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels[:g.labels]...)
	}
}

package simulator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// collector makes metrics of what the provider counts anyhow.
type collector struct{ *provider }

// Describe sends nothing: the metrics are made when they are asked for.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help, label string, values map[string]int) {
		desc := prometheus.NewDesc("catchwater_simulator_"+name, help, []string{label}, nil)
		for value, n := range values {
			to <- prometheus.MustNewConstMetric(desc, kind, float64(n), value)
		}
	}
	tasks, report := c.tasks.Counts(), c.engine.Report(delivery.Totals)
	send(prometheus.GaugeValue, "tasks_unfinished", "Tasks that have not ended.", "status",
		map[string]int{"QUEUED": tasks.Queued, "PROCESSING": tasks.Processing})
	send(prometheus.CounterValue, "tasks_total", "Tasks that have ended.", "outcome",
		map[string]int{"COMPLETED": tasks.Completed, "FAILED": tasks.Failed, "cancelled": tasks.Cancelled})
	send(prometheus.GaugeValue, "deliveries", "Deliveries by state, those that the log has forgotten included.", "state", map[string]int{
		string(delivery.Pending): report.Pending, string(delivery.Delivered): report.Delivered,
		string(delivery.Dead): report.Dead, string(delivery.Dropped): report.Dropped,
	})
	send(prometheus.CounterValue, "requests_sent_total", "Delivery requests that have ended, by the receiver's status; none without one.", "status", report.ByCode)
	send(prometheus.CounterValue, "api_requests_total", "Requests to the API, by operation and by what went wrong.", "what", c.api.Counts())
	desc := prometheus.NewDesc("catchwater_simulator_answer_milliseconds", "Quantiles of the receiver's time to answer.", []string{"quantile"}, nil)
	for name, ms := range report.AnswerMs {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, ms, name)
	}
}

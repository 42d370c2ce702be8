package simulator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// collector makes metrics of what the providers count anyhow.
type collector struct{ *providers }

// Describe sends nothing: the metrics are made when they are asked for.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics. Those of Answerline, which was the first provider,
// have no name of a provider in theirs.
func (c collector) Collect(to chan<- prometheus.Metric) {
	answerline, koltrix := sender{to, "catchwater_simulator_"}, sender{to, "catchwater_simulator_koltrix_"}
	tasks := c.answerline.tasks.Counts()
	answerline.send(prometheus.GaugeValue, "tasks_unfinished", "Tasks that have not ended.", "status",
		map[string]int{"QUEUED": tasks.Queued, "PROCESSING": tasks.Processing})
	answerline.send(prometheus.CounterValue, "tasks_total", "Tasks that have ended.", "outcome",
		map[string]int{"COMPLETED": tasks.Completed, "FAILED": tasks.Failed, "cancelled": tasks.Cancelled})
	answerline.outlet(c.answerline.engine.Report(delivery.Totals), c.answerline.api.Counts())

	messages := c.koltrix.messages.Counts()
	koltrix.send(prometheus.GaugeValue, "messages", "Messages: living are those to which something will still happen.", "state",
		map[string]int{"living": messages.Living, "ended": messages.Ended})
	koltrix.send(prometheus.CounterValue, "events_total", "Events of messages, delivered or not.", "type", messages.Events)
	koltrix.outlet(c.koltrix.engine.Report(delivery.Totals), c.koltrix.api.Counts())
}

// sender sends metrics whose names begin alike.
type sender struct {
	to     chan<- prometheus.Metric
	prefix string
}

func (s sender) send(kind prometheus.ValueType, name, help, label string, values map[string]int) {
	desc := prometheus.NewDesc(s.prefix+name, help, []string{label}, nil)
	for value, n := range values {
		s.to <- prometheus.MustNewConstMetric(desc, kind, float64(n), value)
	}
}

// outlet sends what every provider counts.
func (s sender) outlet(report delivery.Report, requests map[string]int) {
	s.send(prometheus.GaugeValue, "deliveries", "Deliveries by state, those that the log has forgotten included.", "state", map[string]int{
		string(delivery.Pending): report.Pending, string(delivery.Delivered): report.Delivered,
		string(delivery.Dead): report.Dead, string(delivery.Dropped): report.Dropped,
	})
	s.send(prometheus.CounterValue, "requests_sent_total", "Delivery requests that have ended, by the receiver's status; none without one.", "status", report.ByCode)
	s.send(prometheus.CounterValue, "api_requests_total", "Requests to the API, by operation and by what went wrong.", "what", requests)
	desc := prometheus.NewDesc(s.prefix+"answer_milliseconds", "Quantiles of the receiver's time to answer.", []string{"quantile"}, nil)
	for name, ms := range report.AnswerMs {
		s.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, ms, name)
	}
}

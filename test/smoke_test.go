package test

import (
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

func TestDeliveriesBecomeAnswers(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr)
	simulator.Burst(500, 0)
	report := simulator.Report(30 * time.Second)
	if report.Deliveries.Delivered != 500 {
		t.Errorf("the simulator reports %+v", report.Deliveries)
	}
	s.AwaitInt(10*time.Second, 500, "select count(*) from answers")
	t.Log(report.Deliveries.ByCode, report.Deliveries.AnswerMs)
}

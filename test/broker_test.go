package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/catchwater/catchwater/test/harness"
)

// viaDoorbell is how many batches the doorbell led to.
func viaDoorbell(t *testing.T, processor *harness.Service) float64 {
	t.Helper()
	return processor.Metric(`catchwater_processor_batch_rows_count{via="doorbell"}`)
}

// TestBrokerAway stops the broker, wipes its storage, and deletes its stream and
// consumer: everything works on, and the doorbell comes back by itself.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress, processor := s.StartService("ingress"), s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr)
	processor.AwaitDoorbell(1)
	total := 0
	deliver := func(what string, within time.Duration) {
		t.Helper()
		simulator.Burst(100, 0)
		total += 100
		if report := simulator.Report(20 * time.Second); report.Deliveries.Delivered != total || report.Deliveries.Sends != total {
			t.Errorf("%s: %d of %d delivered in %d sends", what, report.Deliveries.Delivered, total, report.Deliveries.Sends)
		}
		s.AwaitInt(within, total, answersCount)
	}
	rings := func(what string) {
		t.Helper()
		processor.AwaitDoorbell(1)
		before := viaDoorbell(t, processor)
		harness.Await(t, 20*time.Second, "the doorbell to ring again: "+what, func() error {
			deliver(what, 10*time.Second)
			if viaDoorbell(t, processor) == before {
				return fmt.Errorf("no batch came by the doorbell")
			}
			return nil
		})
	}
	rings("at first")

	s.NATS.Kill()
	processor.AwaitDoorbell(0)
	deliver("broker killed", 10*time.Second)
	if failures := ingress.Metric("catchwater_ingress_announce_failures_total"); failures < 100 {
		t.Errorf("%v announce failures were counted, want at least 100", failures)
	}
	s.NATS.Start()
	rings("broker back")

	s.WipeNATS()
	s.NATS.Start()
	rings("storage wiped")

	conn, err := nats.Connect(s.NATSURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "CATCHWATER"); err != nil {
		t.Fatal(err)
	}
	rings("stream deleted")
	if err := js.DeleteConsumer(t.Context(), "CATCHWATER", "processor"); err != nil {
		t.Fatal(err)
	}
	rings("consumer deleted")
}

// TestBrokerFrozen stops the broker in its tracks: connected, and silent.
func TestBrokerFrozen(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress, processor := s.StartService("ingress"), s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr)
	processor.AwaitDoorbell(1)
	s.NATS.Pause()
	simulator.Burst(200, 0)
	report := simulator.Report(20 * time.Second)
	if report.Deliveries.ByCode["204"] != 200 || report.Deliveries.AnswerMs["max"] > 3000 {
		t.Errorf("with the broker frozen: %v, slowest %v ms", report.Deliveries.ByCode, report.Deliveries.AnswerMs["max"])
	}
	s.AwaitInt(20*time.Second, 200, answersCount)
	s.NATS.Continue()
	processor.AwaitDoorbell(1)
	simulator.Burst(10, 0)
	s.AwaitInt(20*time.Second, 210, answersCount)
}

// TestRowsWithoutAnyDoorbell never has a broker.
func TestRowsWithoutAnyDoorbell(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.NATS.Kill()
	ingress := s.StartService("ingress")
	s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr)
	simulator.Burst(300, 0)
	s.AwaitInt(20*time.Second, 300, answersCount)
}

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/catchwater/catchwater/test/harness"
)

// The times of a pod's end, the chart's but for preStop, which the test does not
// have all day for.
const (
	preStop   = time.Second
	endpoints = 500 * time.Millisecond // until load balancers have heard
	grace     = 45 * time.Second       // of all: preStop, and what comes after SIGTERM
)

// replace does with a service what Kubernetes does with a pod whose template has
// changed: another is started, and sent work when it is ready; then the old one
// is taken out of the load balancers while it waits in preStop, told to stop, and
// would be killed at the end of its grace period.
func replace(t *testing.T, old, young *harness.Service, in, out func(*harness.Service)) {
	t.Helper()
	young.AwaitReady()
	in(young)
	began := time.Now()
	heard := time.AfterFunc(endpoints, func() { out(old) })
	defer heard.Stop()
	<-time.After(preStop)
	old.Signal(syscall.SIGTERM)
	select {
	case <-old.Done():
	case <-time.After(time.Until(began.Add(grace))):
		t.Errorf("a service did not stop within its grace period")
		old.Kill()
	}
	if code := old.ExitCode(); code != 0 {
		t.Errorf("a service ended with status %d", code)
	}
}

// TestRollout replaces every service while deliveries go on: none is lost, none
// is answered with anything but 204, no connection is reset, and each service
// stops within its grace period.
func TestRollout(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	b := &balancer{}
	start := map[string]func() *harness.Service{}
	for _, name := range []string{"ingress", "processor", "reconciler"} {
		start[name] = func() *harness.Service { return s.LaunchService(name) }
	}
	running := make(map[string][]*harness.Service)
	for name := range start {
		for range 2 {
			running[name] = append(running[name], s.StartService(name))
		}
	}
	for _, ingress := range running["ingress"] {
		b.add(ingress)
	}
	l := &load{refused: make(map[int]int)}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(16, stop, func() string { return b.pick().Addr })
	}()
	nobody := func(*harness.Service) {}
	for n := range 2 {
		replace(t, running["ingress"][n], start["ingress"](), b.add, b.remove)
		replace(t, running["processor"][n], start["processor"](), nobody, nobody)
		replace(t, running["reconciler"][n], start["reconciler"](), nobody, nobody)
	}
	close(stop)
	<-done
	l.assertNoneRefused(t)
	assertAllAnswered(t, s, l.accepted)
}

// TestAProcessorThatStopsGivesBack stops a processor that is stuck in a batch and
// has more messages waiting: it is unready, finishes the batch, and hands the
// rest back to the broker rather than let them lie until their time is out.
func TestAProcessorThatStopsGivesBack(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	// Scans would take the rows up: this is about messages.
	processor := s.StartService("processor", "CATCHWATER_WORKERS=1", "CATCHWATER_BATCH_ROWS=16", "CATCHWATER_SCAN_INTERVAL=1h")
	processor.AwaitDoorbell(1)
	conn, err := nats.Connect(s.NATSURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	delivered := func() uint64 {
		t.Helper()
		consumer, err := js.Consumer(t.Context(), "CATCHWATER", "processor")
		if err != nil {
			t.Fatal(err)
		}
		return consumer.CachedInfo().Delivered.Consumer
	}
	var mu sync.Mutex
	given := make(map[uint64]bool)
	if _, err := conn.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.CATCHWATER.processor", func(msg *nats.Msg) {
		var advisory struct {
			ConsumerSeq uint64 `json:"consumer_seq"`
		}
		if err := json.Unmarshal(msg.Data, &advisory); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		given[advisory.ConsumerSeq] = true
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}

	simulator, _ := s.Simulator(ingress.Addr)
	rows := 0
	burst := func(count int) { simulator.Burst(count, 0); rows += count }
	harness.Await(t, 30*time.Second, "the ingress to reach the broker", func() error {
		if burst(1); delivered() == 0 {
			return fmt.Errorf("nothing has been announced")
		}
		return nil
	})
	tx, err := s.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "lock table answers in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	before := delivered()
	burst(200)
	harness.Await(t, 30*time.Second, "messages to be fetched", func() error {
		if n := delivered() - before; n < 32 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	processor.Signal(syscall.SIGTERM)
	harness.Await(t, 15*time.Second, "the processor to be unready", func() error {
		response, err := http.Get("http://" + processor.HealthAddr + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		reasons, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(reasons), "stop: ") {
			return fmt.Errorf("it says %s: %s", response.Status, reasons)
		}
		return err
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-processor.Done():
	case <-time.After(grace):
		t.Fatal("the processor did not stop within its grace period")
	}
	processed := s.Int("select count(*) from inbox where state = 'processed'")
	harness.Await(t, 30*time.Second, "the rest to be given back", func() error {
		mu.Lock()
		defer mu.Unlock()
		if want := int(delivered()) - processed; len(given) != want || processed == 0 {
			return fmt.Errorf("%d messages of %d, and %d rows were processed", len(given), want, processed)
		}
		return nil
	})
	s.StartService("processor")
	s.AwaitInt(30*time.Second, rows, answersCount)
}

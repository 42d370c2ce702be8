package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// pairs are measured of what is compared, one after the other and then the
	// other way round, so that neither has the better of a machine that tires.
	pairs = 8
	// ratioConnections are enough to keep the machine busy.
	ratioConnections = 128
)

// side is one of two that are compared.
type side struct {
	name    string
	ingress *program
	prepare func() error // before each of its loads
}

// compare loads two sides in turn, and prints how the second one does beside the
// first: the median of all pairs' ratios, and each ratio, by which to judge the
// machine's rest.
func (b *bench) compare(ctx context.Context, what string, sides [2]side, lasting time.Duration) error {
	var rates, costs [2][]float64
	var ratios []float64
	for pair := range pairs {
		var rate [2]float64
		for turn := range sides {
			i := (turn + pair) % 2
			s := sides[i]
			if err := s.prepare(); err != nil {
				return err
			}
			if err := b.exec(ctx, "checkpoint"); err != nil {
				return err
			}
			prefix := fmt.Sprintf("%s-%d-%d", what, pair, i)
			if _, err := load(s.ingress.addr, "warm-"+prefix, ratioConnections, time.Second/2); err != nil {
				return err
			}
			began := s.ingress.cpu()
			f, err := load(s.ingress.addr, prefix, ratioConnections, lasting)
			if err != nil {
				return err
			}
			rate[i] = f.rate
			rates[i] = append(rates[i], f.rate)
			costs[i] = append(costs[i], (s.ingress.cpu()-began).Seconds()*1e6/(f.rate*lasting.Seconds()))
		}
		ratios = append(ratios, rate[1]/rate[0])
	}
	fmt.Printf("%s at %d connections:", what, ratioConnections)
	for i, side := range sides {
		fmt.Printf(" %s %.0f/s (%.0f us of the ingress's CPU each),", side.name, median(rates[i]), median(costs[i]))
	}
	fmt.Printf(" ratio %.3f (pairs:", median(ratios))
	for _, ratio := range ratios {
		fmt.Printf(" %.2f", ratio)
	}
	fmt.Println(")")
	return b.exec(ctx, "truncate inbox, inbox_payload, answers")
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// compareTracing compares an ingress that traces nothing with one that records
// one delivery in a hundred and sends the spans to a collector.
func (b *bench) compareTracing(ctx context.Context, lasting time.Duration) error {
	if err := b.makeStreams(); err != nil {
		return err
	}
	collector, sent := startCollector()
	defer collector.Close()
	off, err := b.service("ingress")
	if err != nil {
		return err
	}
	defer off.stop()
	on, err := b.service("ingress", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "CATCHWATER_TRACE_SAMPLE_RATIO=0.01")
	if err != nil {
		return err
	}
	defer on.stop()
	nothing := func() error { return nil }
	if err := b.compare(ctx, "tracing", [2]side{{"off", off, nothing}, {"of 1 %", on, nothing}}, lasting); err != nil {
		return err
	}
	if sent.Load() == 0 {
		return errors.New("the collector was sent nothing: the comparison means nothing")
	}
	return nil
}

// startCollector takes traces and throws them away. It returns how often it was
// sent any.
func startCollector() (*httptest.Server, *atomic.Int64) {
	var sent atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n > 0 {
			sent.Add(1)
		}
	})), &sent
}

// compareBroker compares an ingress whose broker works with the same one while
// the broker is stopped.
func (b *bench) compareBroker(ctx context.Context, lasting time.Duration) error {
	if err := b.makeStreams(); err != nil {
		return err
	}
	ingress, err := b.service("ingress")
	if err != nil {
		return err
	}
	defer ingress.stop()
	running := true
	there := func() error {
		if running {
			return nil
		}
		running = true
		if err := b.startBroker(); err != nil {
			return err
		}
		return b.awaitAnnounced(ingress)
	}
	away := func() error {
		if running {
			b.nats.stop()
		}
		running = false
		return nil
	}
	if err := b.compare(ctx, "broker", [2]side{{"there", ingress, there}, {"away", ingress, away}}, lasting); err != nil {
		return err
	}
	return there()
}

// makeStreams gives the broker an empty store, since nobody has taken what earlier
// loads told it and it may be full, and lets a processor make its streams: without
// them the broker would refuse what it is told.
func (b *bench) makeStreams() error {
	b.nats.stop()
	if err := os.RemoveAll(filepath.Join(b.dir, "nats")); err != nil {
		return err
	}
	if err := b.startBroker(); err != nil {
		return err
	}
	processor, err := b.service("processor")
	if err != nil {
		return err
	}
	defer processor.stop()
	return await(func() bool {
		up, err := metric(processor, "catchwater_processor_doorbell_up")
		return err == nil && up == 1
	}, "the processor to make the streams")
}

// awaitAnnounced waits until the ingress tells the broker of what it stores.
func (b *bench) awaitAnnounced(ingress *program) error {
	n := 0
	return await(func() bool {
		const failures = "catchwater_ingress_announce_failures_total"
		before, err := metric(ingress, failures)
		if err != nil {
			return false
		}
		n++
		s, err := dialSender(ingress.addr)
		if err != nil {
			return false
		}
		defer s.conn.Close()
		if err := s.send(fmt.Sprintf("announced-%d-%d", time.Now().UnixNano(), n)); err != nil {
			return false
		}
		time.Sleep(50 * time.Millisecond)
		after, err := metric(ingress, failures)
		return err == nil && after == before
	}, "the ingress to find the broker")
}

// metric reads one that has no labels.
func metric(p *program, name string) (float64, error) {
	response, err := http.Get("http://" + p.health + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s has no metric %s", p.health, name))
}

package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health says whether a service may be sent work. A service is ready when
// nothing holds it back; each hold has a name and a reason, and readyz prints
// them. It is safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	holds map[string]string
}

// NewHealth returns a Health held back by "start" until Release("start").
func NewHealth() *Health {
	return &Health{holds: map[string]string{"start": "the service is starting"}}
}

// Hold makes the service unready under a name, with the reason to show.
func (h *Health) Hold(name, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds[name] = reason
}

// Release takes one hold away.
func (h *Health) Release(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.holds, name)
}

// Ready reports whether nothing holds the service back, and else the reasons.
func (h *Health) Ready() (bool, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(h.holds)) {
		reasons = append(reasons, name+": "+h.holds[name])
	}
	return len(reasons) == 0, reasons
}

// NewRegistry returns a metrics registry with the Go and process collectors, and
// what version this is.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	version := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "catchwater_build_info", Help: "Always 1; the label says which version runs.",
		ConstLabels: prometheus.Labels{"version": Version()},
	})
	version.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version)
	return registry
}

// ready is the metric of what readyz says.
func (h *Health) ready() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "catchwater_ready", Help: "1 while the service may be sent work, as /readyz says, else 0.",
	}, func() float64 {
		if ready, _ := h.Ready(); ready {
			return 1
		}
		return 0
	})
}

// ServeHealth serves /livez, /readyz and /metrics on addr until ctx ends, and adds
// to the registry whether the service is ready. An address that cannot be listened
// on is an error that names it.
func ServeHealth(ctx context.Context, addr string, health *Health, registry *prometheus.Registry, log *slog.Logger) error {
	registry.MustRegister(health.ready())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := health.Ready()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, strings.Join(reasons, "\n"))
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}))

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for health and metrics on %s: %w", addr, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health and metrics on %s: %w", addr, err)
	}
	return nil
}

package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/service"
	"github.com/catchwater/catchwater/pkg/tracing"
)

func start(t *testing.T, endpoint string, ratio float64) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Start(t.Context(), service.Tracing{Endpoint: endpoint, SampleRatio: ratio}, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tracer.Stop)
	return tracer
}

func TestSpansAreSent(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.URL.Path) }))
	defer server.Close()
	tracer := start(t, server.URL+"/base/", 1)
	_, span := tracer.Start(t.Context(), "work")
	span.End()
	tracer.Stop()
	if asked.Load() != "/base/v1/traces" {
		t.Errorf("spans were sent to %v", asked.Load())
	}
}

// TestAnEndpointThatHangsCostsNothing makes more spans than are kept while the
// endpoint takes connections and never answers.
func TestAnEndpointThatHangsCostsNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tracer := start(t, "http://"+listener.Addr().String(), 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			_, span := tracer.Start(context.Background(), "work")
			span.End()
		}
		tracer.Stop()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the spans, or the stop, wait for the endpoint")
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, settings := range []service.Tracing{
		{Endpoint: "jaeger:4317", SampleRatio: 1}, {Endpoint: "http://", SampleRatio: 1}, {Endpoint: "grpc://jaeger:4317", SampleRatio: 1},
		{SampleRatio: 1.5}, {SampleRatio: -1},
	} {
		if _, err := tracing.Start(t.Context(), settings, "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%+v: %v", settings, err)
		}
	}
}

func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	tracer := start(t, "http://127.0.0.1:1", 0)
	remote := tracing.WithTraceparent(t.Context(), recorded)
	for name, c := range map[string]struct {
		ctx  context.Context
		with []trace.SpanStartOption
		want bool
	}{
		"a trace that begins here":                      {ctx: t.Context()},
		"one that the caller records":                   {ctx: remote, want: true},
		"one that the caller does not":                  {ctx: tracing.WithTraceparent(t.Context(), dropped)},
		"one linked to one that is recorded":            {ctx: t.Context(), with: []trace.SpanStartOption{trace.WithLinks(tracing.LinkTo(tracing.SpanContext(recorded)))}, want: true},
		"one linked to one that is not":                 {ctx: t.Context(), with: []trace.SpanStartOption{trace.WithLinks(tracing.LinkTo(tracing.SpanContext(dropped)))}},
		"a caller's that is not, linked to one that is": {ctx: tracing.WithTraceparent(t.Context(), dropped), with: []trace.SpanStartOption{trace.WithLinks(tracing.LinkTo(tracing.SpanContext(recorded)))}},
	} {
		_, span := tracer.Start(c.ctx, "work", c.with...)
		if span.IsRecording() != c.want {
			t.Errorf("%s: recorded is %v", name, span.IsRecording())
		}
		span.End()
	}
	if ctx, span := tracer.Child(t.Context(), "work"); span.IsRecording() || ctx != t.Context() {
		t.Error("a child of nothing is made")
	}
	if _, span := tracer.Child(remote, "work"); !span.IsRecording() {
		t.Error("a child of what is recorded is not")
	}
}

func TestTheNilTracerDoesNothing(t *testing.T) {
	t.Parallel()
	tracer := start(t, "", 1)
	if tracer.On() {
		t.Fatal("something is traced, to nowhere")
	}
	remote := tracing.WithTraceparent(t.Context(), recorded)
	ctx, span := tracer.Start(remote, "work")
	defer span.End()
	if span.IsRecording() || tracing.Traceparent(ctx) != recorded {
		t.Error("the caller's context is not passed on")
	}
}

func TestWhatIsNotRecordedAllocatesNothing(t *testing.T) { // not in parallel: it counts the process's
	for name, ctx := range map[string]context.Context{"no trace": t.Context(), "a trace that is not recorded": tracing.WithTraceparent(t.Context(), dropped)} {
		tracer := start(t, "", 1)
		if allocs := testing.AllocsPerRun(100, func() { tracer.Child(ctx, "work") }); allocs > 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestKindsTellNothingThatWasSaid(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"SQLSTATE 22P02":      fmt.Errorf("insert: %w", &pgconn.PgError{Code: "22P02", Message: `invalid input: "secret"`}),
		"time-out":            fmt.Errorf("insert: %w", context.DeadlineExceeded),
		"cancelled":           context.Canceled,
		"network":             &net.OpError{Op: "dial", Err: errors.New("refused")},
		"*errors.errorString": fmt.Errorf("read %q: %w", "secret", errors.New("secret")),
	} {
		if got := tracing.Kind(err); got != want {
			t.Errorf("%v is of the kind %q, want %q", err, got, want)
		}
	}
}

func TestLogLinesNameTheirTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := service.Log{Level: "info"}.New("test", &out)
	if err != nil {
		t.Fatal(err)
	}
	log = log.With(slog.String("source", "answers"))
	log.InfoContext(tracing.WithTraceparent(t.Context(), recorded), "delivery")
	for _, want := range []string{`"trace_id":"0af7651916cd43dd8448eb211c80319c"`, `"span_id":"b7ad6b7169203331"`, `"source":"answers"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
	out.Reset()
	log.Info("ready")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a trace is named that there is not: %s", out.String())
	}
}

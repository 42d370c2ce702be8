package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/service"
)

const (
	// flushTimeout bounds how long a service that stops waits for its last spans
	// to be taken.
	flushTimeout = 2 * time.Second
	// mostValue bounds an attribute's text: a user agent is what the sender says
	// it is.
	mostValue = 512
)

// Tracer makes spans. The nil Tracer makes none. It is safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// Start returns a Tracer for a service. Spans are sent in the background;
// an endpoint that is away, or too slow, costs spans and never the service's
// time. Without an endpoint nothing is traced, and the Tracer is nil. It fails
// only on settings that cannot work.
func Start(ctx context.Context, settings service.Tracing, name string, log *slog.Logger) (*Tracer, error) {
	if !(settings.SampleRatio >= 0 && settings.SampleRatio <= 1) { // so written, NaN is refused too
		return nil, fmt.Errorf("--trace-sample-ratio is %v: use 0 to 1", settings.SampleRatio)
	}
	if settings.Endpoint == "" {
		return nil, nil
	}
	endpoint, err := url.Parse(settings.Endpoint)
	if err == nil && (endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "") {
		err = errors.New("it is no http or https URL")
	}
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint is %q: use a base URL, such as http://jaeger:4318: %w", settings.Endpoint, err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, fmt.Errorf("export traces to %s: %w", endpoint.Redacted(), err)
	}
	// What the environment says (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME) comes last and wins.
	described, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("catchwater-"+name), semconv.ServiceVersion(service.Version())),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("the resource of traces is incomplete", slog.Any("error", err))
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = mostValue
	limits.LinkCountLimit = -1 // a batch links to all of its deliveries
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(&gatherer{SpanProcessor: sdktrace.NewBatchSpanProcessor(
			&quietExporter{SpanExporter: exporter, log: log, endpoint: endpoint.Redacted()})}),
		sdktrace.WithResource(described),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSampler(sampler(settings.SampleRatio)),
	)
	return &Tracer{tracer: provider.Tracer("github.com/catchwater/catchwater"), provider: provider, log: log}, nil
}

// On reports whether anything is traced.
func (t *Tracer) On() bool { return t != nil }

// Stop sends what spans there are, for two seconds at most. Spans that end later
// are lost.
func (t *Tracer) Stop() {
	if !t.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("stopping with spans unsent", slog.Any("error", err))
	}
}

// sampler decides which traces are recorded: those that the caller records;
// those that are linked to one that is recorded, so that no link leads nowhere;
// and a share of the others that begin here.
func sampler(ratio float64) sdktrace.Sampler {
	return linked{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}
}

type linked struct{ sdktrace.Sampler }

func (s linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if parent := trace.SpanContextFromContext(p.ParentContext); !parent.IsValid() {
		for _, link := range p.Links {
			if link.SpanContext.IsSampled() {
				return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
			}
		}
	}
	return s.Sampler.ShouldSample(p)
}

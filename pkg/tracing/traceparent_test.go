package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/catchwater/catchwater/pkg/tracing"
)

const (
	recorded = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	dropped  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func TestTraceparentComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, text := range []string{recorded, dropped} {
		ctx := tracing.WithTraceparent(t.Context(), text)
		if got := tracing.Traceparent(ctx); got != text {
			t.Errorf("%s became %q", text, got)
		}
	}
	// A later version may say more, which is not passed on.
	ctx := tracing.WithTraceparent(t.Context(), "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-else")
	if got := tracing.Traceparent(ctx); got != recorded {
		t.Errorf("a later version became %q", got)
	}
}

func TestWhatIsNoTraceparentIsLeftOut(t *testing.T) {
	t.Parallel()
	before, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, text := range []string{
		"", "00-\xff", "nonsense", recorded[:54], recorded + "0", recorded + "-00",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		if got := tracing.Traceparent(tracing.WithTraceparent(before, text)); got != "" {
			t.Errorf("%q is taken for %s", text, got)
		}
		if tracing.Sampled(text) {
			t.Errorf("%q is taken for one that is recorded", text)
		}
	}
}

func TestSampled(t *testing.T) {
	t.Parallel()
	if !tracing.Sampled(recorded) || tracing.Sampled(dropped) || !tracing.Sampled(recorded[:54]+"3") {
		t.Error("the flags are not read as they are")
	}
	if !tracing.SpanContext(recorded).IsRemote() || tracing.SpanContext(recorded).TraceFlags() != trace.FlagsSampled {
		t.Error("the span context is not that of the text")
	}
}

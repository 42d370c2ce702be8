package service

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"
)

func TestDurationsInTheLogAreText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := Log{Level: "info"}.New("processor", &out)
	if err != nil {
		t.Fatal(err)
	}
	log.With(slog.Duration("horizon", time.Hour)).Info("a call", slog.Duration("took", 12500*time.Microsecond),
		slog.Group("next", slog.Duration("retry_in", 90*time.Second)), slog.Int("attempt", 3))
	var line struct {
		Service, Horizon, Took string
		Next                   struct {
			RetryIn string `json:"retry_in"`
		}
		Attempt int
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	if line.Service != "processor" || line.Horizon != "1h0m0s" || line.Took != "12.5ms" || line.Next.RetryIn != "1m30s" || line.Attempt != 3 {
		t.Errorf("the line is %s", out.Bytes())
	}
}

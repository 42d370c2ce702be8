package service

import (
	"fmt"
	"io"
	"log/slog"
)

// Log is how a service writes its log.
type Log struct {
	Level string `name:"log-level" env:"CATCHWATER_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"Least level written: debug, info, warn or error."`
}

// New returns a JSON logger that names the service on every line.
func (l Log) New(service string, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("read log level %q: use debug, info, warn or error", l.Level)
	}
	return NewLogger(service, w, level), nil
}

// NewLogger is New for a level that is known. Each line bears the trace and span
// of its context, and durations are text, such as 1h0m0s or 12.5ms.
func NewLogger(service string, w io.Writer, level slog.Level) *slog.Logger {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: durationsAsText})
	return slog.New(WithTraceIDs(handler)).With(slog.String("service", service))
}

// durationsAsText replaces the nanoseconds that slog writes, which nobody can read
// and whose unit nothing says.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

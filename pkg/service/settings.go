package service

import "time"

// Database is how a service reaches Postgres.
type Database struct {
	URL            string        `name:"database-url" env:"DATABASE_URL" help:"Postgres connection string of the service's own role. Behind pgbouncer in transaction mode add default_query_exec_mode=exec."`
	PasswordFile   string        `name:"database-password-file" env:"CATCHWATER_DATABASE_PASSWORD_FILE" help:"Path of a file with the role's password, for a connection string without one. It is read again for each new connection, so a new password needs no restart."`
	MaxConns       int32         `name:"database-max-conns" env:"CATCHWATER_DATABASE_MAX_CONNS" default:"8" help:"Most connections held at once (1 to 1000)."`
	ConnectTimeout time.Duration `name:"database-connect-timeout" env:"CATCHWATER_DATABASE_CONNECT_TIMEOUT" default:"2s" help:"Longest wait for a new connection."`
}

// Broker is how a service reaches NATS.
type Broker struct {
	URL         string `name:"nats-url" env:"NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS servers, comma-separated. The service starts, and works, without them."`
	Credentials string `name:"nats-credentials" env:"CATCHWATER_NATS_CREDENTIALS" help:"Path of a NATS credentials file, where the servers ask for one."`
}

// Streams is how a service makes the streams it consumes from.
type Streams struct {
	Replicas int `name:"nats-replicas" env:"CATCHWATER_NATS_REPLICAS" enum:"1,3,5" default:"1" help:"NATS servers that keep a copy of each stream: 1, or 3 or 5 where the servers form a cluster of at least so many. A stream that has more keeps them."`
}

// Sources is where the configuration of the sources stands.
type Sources struct {
	Path string `name:"config" env:"CATCHWATER_CONFIG" default:"catchwater.yaml" help:"Path of the sources file."`
}

// Tracing is where a service sends its traces.
type Tracing struct {
	Endpoint    string  `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"Base URL of what takes traces by OTLP over HTTP, such as http://jaeger:4318; without one nothing is traced. The OpenTelemetry SDK's other variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_BSP_…, OTEL_RESOURCE_ATTRIBUTES) are heeded too."`
	SampleRatio float64 `name:"trace-sample-ratio" env:"CATCHWATER_TRACE_SAMPLE_RATIO" default:"1" help:"Share of the traces that begin here which are recorded (0 to 1); a trace that comes with a request or a message is recorded if its beginner records it."`
}

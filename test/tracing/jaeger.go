// Package tracing looks at the services' traces with a real Jaeger: `make
// test-tracing` builds one, which takes minutes, and runs the tests here.
package tracing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

// jaeger is a running Jaeger that keeps its traces in memory.
type jaeger struct {
	t           testing.TB
	otlp, query string // addresses
}

const jaegerConfig = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry:
    metrics: {level: none}
    traces: {level: none}
    logs: {level: warn}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query:
    storage: {traces: memory}
    http: {endpoint: %[2]q}
    grpc: {endpoint: %[3]q}
receivers:
  otlp: {protocols: {http: {endpoint: %[1]q}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
`

// startJaeger starts the Jaeger that the environment names, and returns when it
// answers.
func startJaeger(s *harness.System) *jaeger {
	s.T.Helper()
	program := os.Getenv("JAEGER")
	if program == "" {
		s.T.Fatal("JAEGER does not name a Jaeger: run these tests by `make test-tracing`, which builds one")
	}
	j := &jaeger{t: s.T, otlp: address(s), query: address(s)}
	path := filepath.Join(s.Dir, "jaeger.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, jaegerConfig, j.otlp, j.query, address(s)), 0o600); err != nil {
		s.T.Fatal(err)
	}
	s.StartProgram("jaeger", program, "--config", "file:"+path)
	harness.Await(s.T, 2*time.Minute, "Jaeger to answer", func() error {
		response, err := http.Get("http://" + j.query + "/api/services")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	return j
}

func address(s *harness.System) string { return fmt.Sprintf("127.0.0.1:%d", s.Port()) }

// env makes a service send its traces here.
func (j *jaeger) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + j.otlp, "OTEL_BSP_SCHEDULE_DELAY=200"}
}

// tracedTrace and tracedSpan are the parts of Jaeger's answers that are looked at.
type tracedTrace struct {
	ID        string       `json:"traceID"`
	Spans     []tracedSpan `json:"spans"`
	Processes map[string]struct {
		Service string `json:"serviceName"`
	} `json:"processes"`
}

type tracedSpan struct {
	ID         string `json:"spanID"`
	Operation  string `json:"operationName"`
	Process    string `json:"processID"`
	Start      int64  `json:"startTime"` // in µs
	Duration   int64  `json:"duration"`
	References []struct {
		Type    string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	Tags []struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	} `json:"tags"`
}

func (s *tracedSpan) tag(key string) string {
	for _, tag := range s.Tags {
		if tag.Key == key {
			return fmt.Sprint(tag.Value)
		}
	}
	return ""
}

// find returns the traces in which a service has a span with a tag.
func (j *jaeger) find(service, key, value string) []tracedTrace {
	j.t.Helper()
	tags, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		j.t.Fatal(err)
	}
	traces, _ := j.get("/api/traces?" + url.Values{"service": {service}, "tags": {string(tags)}, "limit": {"20"}}.Encode())
	return traces
}

// get returns traces, and the bytes that said so.
func (j *jaeger) get(path string) ([]tracedTrace, string) {
	j.t.Helper()
	response, err := http.Get("http://" + j.query + path)
	if err != nil {
		j.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		j.t.Fatalf("%s: %s: %v", path, response.Status, err)
	}
	var traces []tracedTrace
	if err := json.Unmarshal(answer.Data, &traces); err != nil {
		j.t.Fatalf("%s: %s: %v", path, answer.Data, err)
	}
	return traces, string(answer.Data)
}

// await returns the trace with a span of the event, once it is the tree that is
// wanted.
func (j *jaeger) await(service, eventKey, want string) tracedTrace {
	j.t.Helper()
	var found tracedTrace
	harness.Await(j.t, 2*time.Minute, "the trace of "+eventKey+" to be\n"+want, func() error {
		traces := j.find(service, "catchwater.event_key", eventKey)
		traces = slices.DeleteFunc(traces, func(t tracedTrace) bool { return !strings.HasPrefix(t.tree(), firstLine(want)) })
		if len(traces) != 1 {
			return fmt.Errorf("there are %d", len(traces))
		}
		if found = traces[0]; found.tree() != want {
			return fmt.Errorf("it is\n%s", found.tree())
		}
		return nil
	})
	return found
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// tree writes a trace as its spans, each below its parent and in alphabetic
// order: the service without its prefix, the operation, what failed.
func (t *tracedTrace) tree() string {
	var lines strings.Builder
	t.write(&lines, "", "")
	return lines.String()
}

func (t *tracedTrace) write(lines *strings.Builder, parent, indent string) {
	var texts []string
	ids := make(map[string][]string)
	for i := range t.Spans {
		span := &t.Spans[i]
		if t.parent(span) != parent {
			continue
		}
		text := strings.TrimPrefix(t.Processes[span.Process].Service, "catchwater-") + ": " + span.Operation
		if span.tag("error") == "true" {
			text += " FAILED"
		}
		texts = append(texts, text)
		ids[text] = append(ids[text], span.ID)
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		for _, id := range ids[text] {
			lines.WriteString(indent + text + "\n")
			t.write(lines, id, indent+"  ")
		}
	}
}

// parent is the id of the span above, empty where that is not in the trace.
func (t *tracedTrace) parent(s *tracedSpan) string {
	for _, reference := range s.References {
		if reference.Type == "CHILD_OF" && slices.ContainsFunc(t.Spans, func(other tracedSpan) bool { return other.ID == reference.SpanID }) {
			return reference.SpanID
		}
	}
	return ""
}

// links are the ids of the other traces that a span leads to.
func (s *tracedSpan) links(trace string) []string {
	var others []string
	for _, reference := range s.References {
		if reference.TraceID != trace {
			others = append(others, reference.TraceID)
		}
	}
	return others
}

// span returns the one span of an operation.
func (t *tracedTrace) span(test testing.TB, operation string) *tracedSpan {
	test.Helper()
	i := slices.IndexFunc(t.Spans, func(s tracedSpan) bool { return s.Operation == operation })
	if i < 0 {
		test.Fatalf("there is no span %q in\n%s", operation, t.tree())
	}
	return &t.Spans[i]
}

package source

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

// parseOne reads a file whose one source is "mine", given its lines.
func parseOne(t *testing.T, lines ...string) *Source {
	t.Helper()
	config, err := Parse("f.yaml", []byte("sources:\n  mine:\n    "+strings.Join(lines, "\n    ")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return config.Lookup("mine")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := parseOne(t, "preset: answerline", "secrets: [{env: A}, {file: /f}]",
		"reconcile: {base_url: 'https://api.example/v0/', token: {env: T}}")
	scheme := s.Verifier.Scheme()
	for what, ok := range map[string]bool{
		"preset":        s.Preset == "answerline",
		"secrets":       fmt.Sprint(s.Secrets) == "[environment variable A file /f]",
		"max_body":      s.MaxBody == 1<<20,
		"reject_status": s.RejectStatus == http.StatusBadRequest,
		"gzip":          s.GzipSigned == GzipRefused,
		"projection":    s.Projection == ProjectionAnswers,
		"keep_headers":  strings.Join(s.KeepHeaders, " ") == "Content-Type Content-Encoding User-Agent Webhook-Id",
		"header":        scheme.Header == "Webhook-Signature",
		"tolerance":     scheme.Tolerance == 300*time.Second,
		"reconcile": reflect.DeepEqual(*s.Reconcile, Reconcile{
			BaseURL: "https://api.example/v0", Token: SecretRef{Env: "T"}, After: time.Hour, Horizon: 4*time.Hour + 48*time.Minute,
			Rare: 6 * time.Hour, Interval: 5 * time.Minute, Rate: 5, Timeout: 30 * time.Second,
		}),
	} {
		if !ok {
			t.Errorf("%s: %+v, scheme %+v", what, *s, scheme)
		}
	}
	if s := parseOne(t, "preset: github", "secrets: [{env: A}]"); s.Reconcile != nil || s.Verifier.Scheme().Tolerance != 0 {
		t.Errorf("github: %+v", *s)
	}
}

func TestEveryPartOfAPresetCanBeOverridden(t *testing.T) {
	t.Parallel()
	s := parseOne(t, "preset: answerline", "secrets: [{env: A}]",
		"scheme: {header: X-Sig, form: versioned, signature_keys: [v2], timestamp_key: '', timestamp_header: X-Time, timestamp_unit: ms,",
		"  id_header: X-Id, signed: '{id}.{t}.{header:X-Z}.{body}', algorithm: hmac-sha512, encoding: base64, key_form: base64, key_prefix: k_}",
		"tolerance: 5m", "key: [a.id, {optional: 'form:b'}, 'header:x-c']", "type: kind", "subject: $.s", "occurred_at: at",
		"test: {field: mode, in: [test, ping]}", "provisional: none", "projection: none", "max_body: 25MiB", "reject_status: 401",
		"gzip: wire", "keep_headers: [x-one]")
	want := signature.Scheme{
		Header: "X-Sig", Form: signature.FormVersioned, SignatureKeys: []string{"v2"}, TimestampHeader: "X-Time",
		TimestampUnit: signature.Milliseconds, IDHeader: "X-Id", Signed: "{id}.{t}.{header:X-Z}.{body}", Algorithm: signature.HMACSHA512,
		Encoding: signature.Base64, KeyForm: signature.Base64, KeyPrefix: "k_", Tolerance: 5 * time.Minute,
	}
	if got := s.Verifier.Scheme(); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	wantRules := rules{
		key:       []keyPart{{ref: body("a.id")}, {ref: ref{refForm, "b"}, optional: true}, {ref: header("X-C")}},
		eventType: body("kind"), subject: body("$.s"), occurredAt: body("at"),
		test: condition{ref: body("mode"), values: []string{"test", "ping"}},
	}
	if got := fmt.Sprintf("%+v", s.rules.rules); got != fmt.Sprintf("%+v", wantRules) {
		t.Errorf("got  %s\nwant %+v", got, wantRules)
	}
	if s.Projection != ProjectionNone || s.MaxBody != 25<<20 || s.RejectStatus != 401 || s.GzipSigned != GzipWire || strings.Join(s.KeepHeaders, "") != "X-One" {
		t.Errorf("%+v", *s)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"65536": 65536, "512KiB": 512 << 10, "25 MiB": 25 << 20, "2MB": 2_000_000, "9KB": 9000, "4096B": 4096} {
		if s := parseOne(t, "preset: github", "secrets: [{env: A}]", "max_body: "+text); s.MaxBody != want {
			t.Errorf("%s: %d, want %d", text, s.MaxBody, want)
		}
	}
}

func TestSourcesAreSortedAndFound(t *testing.T) {
	t.Parallel()
	const one = ": {preset: github, secrets: [{env: A}]}\n  "
	config, err := Parse("f.yaml", []byte("sources:\n  b"+one+"a"+one+"c-1"+one))
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Sources) != 3 || config.Sources[0].Name != "a" || config.Lookup("c-1") != config.Sources[2] || config.Lookup("d") != nil {
		t.Errorf("%+v", config.Sources)
	}
}

func TestLoadNamesTheSetting(t *testing.T) {
	t.Parallel()
	if _, err := Load("/nowhere/catchwater.yaml"); err == nil || !strings.Contains(err.Error(), "CATCHWATER_CONFIG") {
		t.Errorf("got %v", err)
	}
}

func TestAByteOrderMarkIsSkipped(t *testing.T) {
	t.Parallel()
	config, err := Parse("f.yaml", []byte("\uFEFFsources:\n  a: {preset: github, secrets: [{env: A}]}\n"))
	if err != nil || config.Lookup("a") == nil {
		t.Errorf("got %v", err)
	}
}

package effects_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
)

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 300)
	for _, c := range []struct{ source, effect, key, want string }{
		{"mail", "crm", "task_1", "mail:crm:task_1"},
		{"mail", "crm", "a|b|1700000000", "mail:crm:a%7Cb%7C1700000000"},
		{"mail", "crm", "a.b", "mail:crm:a%2Eb"}, // a full stop parts what is signed
		{"mail", "crm", "100%", "mail:crm:100%25"},
		{"mail", "crm", "ü\r\nX: y", "mail:crm:%C3%BC%0D%0AX:%20y"},
		{"mail", "crm", "jane+tag@example", "mail:crm:jane+tag@example"},
	} {
		if got := effects.IdempotencyKey(c.source, c.effect, c.key); got != c.want {
			t.Errorf("%q: got %s, want %s", c.key, got, c.want)
		}
	}
	got := effects.IdempotencyKey("mail", "crm", long)
	if len(got) != len("sha256:")+64 || !strings.HasPrefix(got, "sha256:") || got == effects.IdempotencyKey("mail", "crm", long+"k") {
		t.Errorf("a long key is %s", got)
	}
	if got := len(effects.IdempotencyKey("mail", "crm", strings.Repeat("k", 246))); got != 255 {
		t.Errorf("a key of 246 bytes has %d with what stands before it, want 255 as they are", got)
	}
}

func TestAnEventAsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.FixedZone("", 3600))
	e := effects.Event{Source: "mail", EventKey: "k", Type: "message.bounced", Subject: "m1", OccurredAt: at, ReceivedAt: at.Add(time.Hour)}
	const head = `{"type":"message.bounced","timestamp":"2026-03-01T11:00:00.123456Z","source":"mail","event_key":"k","subject":"m1"`
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(`{"packed":true}`))
	_ = w.Close()
	for _, c := range []struct {
		body   string
		change effects.Change
		want   string
	}{
		{`{"a":"<&>","n":1.50,"b":"\u0000"}`, effects.Change{}, head + `,"data":{"a":"<&>","n":1.50,"b":"\u0000"}}`},
		{`a=b`, effects.Change{}, head + `,"data_base64":"YT1i"}`},
		{"\"\xff\"", effects.Change{}, head + `,"data_base64":"Iv8i"}`},
		{packed.String(), effects.Change{}, head + `,"data":{"packed":true}}`},
		{`1`, effects.Change{Status: "bounced", Previous: "sent", Changed: true}, head + `,"data":1,"change":{"status":"bounced","previous":"sent","changed":true}}`},
		{`1`, effects.Change{Status: "sent"}, head + `,"data":1,"change":{"status":"sent","changed":false}}`},
	} {
		e.Body, e.Change = []byte(c.body), c.change
		if got, err := e.JSON(); string(got) != c.want || err != nil {
			t.Errorf("%q: %v\ngot  %s\nwant %s", c.body, err, got, c.want)
		}
	}
	e.OccurredAt = time.Time{}
	if got, _ := e.JSON(); !strings.Contains(string(got), `"timestamp":"2026-03-01T12:00:00.123456Z"`) {
		t.Errorf("without a time of the provider's: %s", got)
	}
}

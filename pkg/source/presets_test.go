package source

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

// TestPresetsIdentify has a delivery of each preset's kind.
func TestPresetsIdentify(t *testing.T) {
	t.Parallel()
	const task = `{"task":{"id":"t1","taskType":"chat","status":"COMPLETED","createdAt":"2026-01-02T03:04:05Z","idempotencyKey":"job-1"},"response":{}}`
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	unsigned := http.Header{"Webhook-Id": {"wh_1"}}
	github := func(event string) http.Header {
		return http.Header{"X-Github-Delivery": {"d-1"}, "X-Github-Event": {event}}
	}
	for _, c := range []struct {
		preset, content string
		header          http.Header
		want            Identity
	}{
		{"answerline", task, unsigned, Identity{EventKey: "t1", EventType: "COMPLETED", Subject: "t1", OccurredAt: at}},
		{"cloro", task, unsigned, Identity{EventKey: "t1", EventType: "COMPLETED", Subject: "t1", OccurredAt: at}},
		{"answerline", `{"test":true,"task":{"id":"t1"}}`, nil, Identity{Test: true}},
		{"answerline", `{"task":{"id":"t1"}}`, nil, Identity{EventKey: "t1", Subject: "t1"}},
		{"koltrix", `{"event":"message.sent","timestamp":1767323045,"message_id":"m1","to":"a@b.c"}`, nil,
			Identity{EventKey: "m1|message.sent|1767323045|a@b.c", EventType: "message.sent", Subject: "m1", OccurredAt: at}},
		{"koltrix", `{"event":"message.sent","timestamp":1767323045,"message_id":"m1"}`, nil,
			Identity{EventKey: `m1|message.sent|1767323045|\-`, EventType: "message.sent", Subject: "m1", OccurredAt: at}},
		{"standard-webhooks", `{"type":"contact.created","timestamp":"2026-01-02T03:04:05Z","data":{}}`, http.Header{"Webhook-Id": {"msg_1"}},
			Identity{EventKey: "msg_1", EventType: "contact.created", OccurredAt: at}},
		{"stripe", `{"id":"evt_1","type":"charge.failed","created":1767323045,"data":{"object":{"id":"ch_1"}}}`, nil,
			Identity{EventKey: "evt_1", EventType: "charge.failed", Subject: "ch_1", OccurredAt: at}},
		{"github", `{"action":"opened"}`, github("issues"), Identity{EventKey: "d-1", EventType: "issues"}},
		{"github", "payload=%7B%7D", github("issues"), Identity{EventKey: "d-1", EventType: "issues"}},
		{"github", `{"zen":"…"}`, github("ping"), Identity{Test: true}},
	} {
		s := parseOne(t, "preset: "+c.preset, "secrets: [{env: A}]")
		if got := s.Identify(c.header, []byte(c.content)); got != c.want {
			t.Errorf("%s, %s:\ngot  %+v\nwant %+v", c.preset, c.content, got, c.want)
		}
	}
}

// TestNoResultIsTakenBeforeItIsFinal: a status that may still change is stored
// under another key, so that the final result is not a duplicate of it.
func TestNoResultIsTakenBeforeItIsFinal(t *testing.T) {
	t.Parallel()
	s := parseOne(t, "preset: answerline", "secrets: [{env: A}]")
	for _, status := range []string{"QUEUED", "PROCESSING"} {
		content := `{"task":{"id":"t1","status":"` + status + `"}}`
		id := s.Identify(nil, []byte(content))
		if id.EventKey != hashKey([]byte(content)) || id.Quarantine != "task.status is "+status+", which is not final" || id.Subject != "t1" {
			t.Errorf("%s: %+v", status, id)
		}
	}
}

func TestPresetsVerifyWhatTheirProviderSigns(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	for name := range presets {
		if name == "custom" {
			continue
		}
		v := parseOne(t, "preset: "+name, "secrets: [{env: A}]").Verifier
		key, err := v.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := http.Header{"Webhook-Id": {"msg_1"}}
		if err := v.Sign(h, []byte("{}"), []signature.Key{key, key}, now); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := v.Verify(h, []byte("{}"), []signature.Key{key}, now.Add(299*time.Second)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		timed := name != "koltrix" && name != "github"
		if err := v.Verify(h, []byte("{}"), []signature.Key{key}, now.Add(301*time.Second)); timed != (err != nil && strings.Contains(err.Error(), "expired")) {
			t.Errorf("%s, 301 s later: %v", name, err)
		}
	}
}

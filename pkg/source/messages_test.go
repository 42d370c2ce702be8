package source

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestKoltrixMessages(t *testing.T) {
	t.Parallel()
	m := parseOne(t, "preset: koltrix", "secrets: [{env: A}]").Messages
	if m.Create || m.OrphanAfter != 24*time.Hour {
		t.Errorf("the defaults are %+v", m)
	}
	for event, want := range map[string]string{
		"message.queued": "queued 0", "message.sent": "sent 10", "message.delivered": "delivered 20 final", "message.opened": "opened 30 final",
		"message.clicked": "clicked 40 final", "message.unsubscribed": "unsubscribed 50 final suppress",
		"message.bounced": "bounced 60 final suppress", "message.complained": "complained 70 final suppress",
		"message.delayed": "", "sent": "", "": "",
	} {
		if got := statusText(m, event); got != want {
			t.Errorf("%s gives %q, want %q", event, got, want)
		}
	}
	if recipient, category := m.Details([]byte(`{"to":"a@b.c","category":"news"}`), false); recipient != "a@b.c" || category != "news" {
		t.Errorf("details are %q, %q", recipient, category)
	}
	if recipient, category := m.Details([]byte(`{"to":["a@b.c"]`), true); recipient != "" || category != "" {
		t.Errorf("details of what is not JSON are %q, %q", recipient, category)
	}
}

func statusText(m *Messages, event string) string {
	s, ok := m.Status(event)
	if !ok {
		return ""
	}
	text := fmt.Sprint(s.Name, " ", s.Rank)
	if s.Final {
		text += " final"
	}
	if s.Suppress {
		text += " suppress"
	}
	return text
}

func TestMessagesAreSettings(t *testing.T) {
	t.Parallel()
	m := parseOne(t, "preset: koltrix", "secrets: [{env: A}]", "messages: {create: true, orphan_after: 1h, recipient: 'form:who', final: [dropped], "+
		"suppress: [], statuses: {drop: {status: dropped, rank: 65}, late: {status: deferred, rank: -5}, bounce: bounced}}").Messages
	if !m.Create || m.OrphanAfter != time.Hour {
		t.Errorf("got %+v", m)
	}
	for event, want := range map[string]string{"drop": "dropped 65 final", "late": "deferred -5", "bounce": "bounced 60", "message.sent": ""} {
		if got := statusText(m, event); got != want {
			t.Errorf("%s gives %q, want %q", event, got, want)
		}
	}
	if recipient, category := m.Details([]byte("who=a%40b.c&category=x"), false); recipient != "a@b.c" || category != "" {
		t.Errorf("details are %q, %q", recipient, category)
	}
}

func TestFaultsOfMessages(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"{create: perhaps}":                                  `messages.create: "perhaps" is not one of true, false`,
		"{orphan_after: 1ms}":                                "messages.orphan_after: 1ms is too short: use at least 1s",
		"{recipient: 'header:To'}":                           "messages.recipient: this must stand in the body, not in a header",
		"{statuses: {}}":                                     "messages.statuses: give at least one type a status",
		"{statuses: {a: ''}}":                                "messages.statuses.a: it is empty",
		"{statuses: {a: {rank: 5}}}":                         "messages.statuses.a: name the status, such as a: delivered",
		"{statuses: {a: late}}":                              `messages.statuses.a: "late" is none of the statuses whose rank is known`,
		"{statuses: {a: {status: late, rank: x}}}":           `messages.statuses.a.rank: "x" is not a number`,
		"{statuses: {a: {status: x, rank: 1.5}}}":            "messages.statuses.a: the rank 1.5 is not a whole number",
		"{statuses: {a: sent, b: {status: sent, rank: 11}}}": "messages.statuses.b: sent has the rank 11 here and 10 above",
		"{statuses: {a: {status: " + strings.Repeat("x", 65) + ", rank: 1}}}": "messages.statuses.a: a status has at most 64 bytes",
		"{final: [late]}":    `messages.final: no type gives the status "late"`,
		"{suppress: [late]}": `messages.suppress: no type gives the status "late"`,
		"{colour: red}":      "messages.colour: there is no such key here; there are category, create, final, orphan_after, recipient, statuses, suppress",
	} {
		_, err := Parse("f.yaml", []byte("sources:\n  mail:\n    preset: koltrix\n    secrets: [{env: A}]\n    messages: "+settings+"\n"))
		if err == nil || !strings.Contains(err.Error(), "f.yaml:5: sources.mail."+want) {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("sources:\n  mine:\n    preset: custom\n    secrets: [{env: A}]\n    scheme: {header: X, form: bare, signed: '{body}', "+
		"algorithm: hmac-sha256, encoding: hex}\n    projection: messages\n    subject: id\n    messages: {statuses: {a: sent}}\n"))
	if err == nil || !strings.Contains(err.Error(), "f.yaml:2: sources.mine: projection messages needs type, occurred_at: which message") {
		t.Errorf("without type and time: %v", err)
	}
}

package source

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is a source of messages whose provider can be asked.
func asked(t *testing.T, reconcile string, lines ...string) *Source {
	t.Helper()
	return parseOne(t, append([]string{
		"preset: koltrix", "secrets: [{env: A}]", "reconcile: {base_url: 'http://h', token: {env: T}" + reconcile + "}",
	}, lines...)...)
}

func TestMessagesAreAskedForByDefault(t *testing.T) {
	t.Parallel()
	c := asked(t, "").Reconcile
	if c.After != time.Hour || c.Horizon != 72*time.Hour || c.Interval != time.Hour || c.Rare != 24*time.Hour || c.Rate != 5 || c.Timeout != 30*time.Second {
		t.Errorf("the defaults are %+v", c)
	}
	for settings, want := range map[string]string{
		"": "/v1/messages/a%2Fb%20+&c", ", path: '/m/{id}/status'": "/m/a%2Fb%20+&c/status", ", path: '/find?id={id}&v=1'": "/find?id=a%2Fb+%2B%26c&v=1",
	} {
		if got := asked(t, settings).Reconcile.Path("a/b +&c"); got != want {
			t.Errorf("%s: the path is %s, want %s", settings, got, want)
		}
	}
}

// text is what an answer says, on one line.
func (a Answer) text() string {
	text := a.Status
	if a.Final {
		text += " final"
	}
	for _, e := range a.Events {
		text += fmt.Sprintf("; %s %s %s %s %s", e.EventKey, e.EventType, e.Subject, e.OccurredAt.UTC().Format(time.RFC3339), e.Body)
	}
	if a.Unusable != "" {
		text += "; unusable: " + a.Unusable
	}
	return text
}

func TestWhatAnAnswerSays(t *testing.T) {
	t.Parallel()
	const long = 600
	for name, c := range map[string]struct {
		settings string // of reconcile, and lines of the source
		answer   string
		want     string // where body is the answer
	}{
		"final": {"", `{"message_id":"m1","status":"bounced","timestamp":1700000000,"to":"a@b.c"} `,
			"bounced final; m1|message.bounced|1700000000|a@b.c message.bounced m1 2023-11-14T22:13:20Z body"},
		"not final": {"", `{"message_id":"m1","status":"sent","timestamp":1700000000}`,
			`sent; m1|message.sent|1700000000|\- message.sent m1 2023-11-14T22:13:20Z body`},
		"no event":             {"", `{"message_id":"m1","status":"queued","timestamp":1700000000}`, "queued"},
		"a type":               {"", `{"message_id":"m1","status":"message.opened","timestamp":1,"to":"x"}`, "message.opened final; m1|message.opened|1|x message.opened m1 1970-01-01T00:00:01Z body"},
		"an unknown status":    {"", `{"message_id":"m1","status":"lost","timestamp":1}`, `; unusable: the answer says "lost", which is no status that reconcile.answer.types or messages.statuses names`},
		"no status":            {"", `{"message_id":"m1","timestamp":1}`, "; unusable: the answer has no status at status"},
		"a status of many":     {"", `{"message_id":"m1","status":["sent"],"timestamp":1}`, "; unusable: the answer has no status at status"},
		"another message":      {"", `{"message_id":"m2","status":"sent","timestamp":1}`, `; unusable: the answer is about message "m2"`},
		"no message":           {"", `{"status":"sent","timestamp":1}`, `; unusable: the answer is about message ""`},
		"no message is needed": {", answer: {subject: none}", `{"status":"sent","timestamp":1}`, `sent; m1|message.sent|1|\- message.sent m1 1970-01-01T00:00:01Z body`},
		"no time":              {"", `{"message_id":"m1","status":"sent"}`, "; unusable: the answer cannot have its delivery's key: the delivery has no timestamp, which identifies it"},
		"a time that cannot be read": {"", `{"message_id":"m1","status":"sent","timestamp":"soon"}`,
			"; unusable: the answer has no time that can be read at timestamp"},
		"recipients": {"", `{"message_id":"m1","status":"sent","timestamp":1,"to":["a"]}`,
			"; unusable: the answer cannot have its delivery's key: the delivery's to is not a single value, so it cannot identify it"},
		"places and types of its own": {
			", answer: {type: data.state, subject: data.id, occurred_at: data.at, recipient: data.to, types: {hard_bounce: message.bounced}}",
			`{"data":{"id":"m1","state":"hard_bounce","at":1,"to":"x"}}`,
			`hard_bounce final; m1|message.bounced|1|x message.bounced m1 1970-01-01T00:00:01Z body`,
		},
		"a key of its own": {
			", answer: {key: [message_id, status, seconds, rcpt]}", `{"message_id":"m1","status":"sent","timestamp":"2023-11-14T22:13:20Z","seconds":1700000000,"rcpt":"x"}`,
			"sent; m1|message.sent|1700000000|x message.sent m1 2023-11-14T22:13:20Z body",
		},
		"an array": {
			", answer: {events: log, type: event, types: {}}",
			`{"log":[{"message_id":"m1","event":"message.opened","timestamp":2}, {"message_id":"m1","event":"message.sent","timestamp":1,"to":"x"},{"message_id":"m1","event":"lost","timestamp":3}]}`,
			`message.opened final; m1|message.opened|2|\- message.opened m1 1970-01-01T00:00:02Z {"message_id":"m1","event":"message.opened","timestamp":2}` +
				`; m1|message.sent|1|x message.sent m1 1970-01-01T00:00:01Z {"message_id":"m1","event":"message.sent","timestamp":1,"to":"x"}` +
				`; unusable: the answer says "lost", which is no status that reconcile.answer.types or messages.statuses names`,
		},
		"no event beside a low one": {
			", answer: {events: $}}\n    messages: {statuses: {low: {status: low, rank: -7}}, final: [low]", `[{"message_id":"m1","status":"queued"},{"message_id":"m1","status":"low","timestamp":1}]`,
			`low final; m1|low|1|\- low m1 1970-01-01T00:00:01Z {"message_id":"m1","status":"low","timestamp":1}`,
		},
		"an empty array": {", answer: {events: log}", `{"log":[]}`, ""},
		"no array":       {", answer: {events: log}", `{"log":{}}`, "; unusable: there is no array of events at log"},
		"a long status":  {"", `{"message_id":"m1","status":"` + strings.Repeat("x", long) + `","timestamp":1}`, `; unusable: the answer says "` + strings.Repeat("x", 80)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := asked(t, c.settings).ReadAnswer("m1", []byte(c.answer))
			want := strings.Replace(c.want, "Z body", "Z "+c.answer, 1)
			if got := answer.text(); err != nil || !strings.HasPrefix(got, want) || len(got) != len(want) && len(c.answer) < long {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		})
	}
	for _, settings := range []string{"", ", answer: {events: $}"} {
		if answer, err := asked(t, settings).ReadAnswer("m1", []byte("<html>")); err == nil {
			t.Errorf("what is not JSON is read as %+v", answer)
		}
	}
}

// TestAnAnswerHasTheKeyOfItsDelivery compares the two.
func TestAnAnswerHasTheKeyOfItsDelivery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, delivery, answer string }{
		{"", `{"event":"message.bounced","timestamp":1700000000,"message_id":"m|1","to":"é@b.c"}`, `{"status":"bounced","to":"\u00e9@b.c","message_id":"m|1","timestamp":1700000000,"from":"x"}`},
		{"", `{"event":"message.complained","timestamp":1,"message_id":"m|1"}`, `{"message_id":"m|1","status":"complained","timestamp":1,"to":null}`},
		{", answer: {subject: none}", `{"event":"message.sent","timestamp":1,"message_id":"m|1"}`, `{"status":"sent","timestamp":1}`},
	} {
		s := asked(t, c.settings)
		delivered := s.Events(http.Header{}, []byte(c.delivery), []byte(c.delivery))
		answer, err := s.ReadAnswer(delivered[0].Subject, []byte(c.answer))
		if err != nil || len(answer.Events) != 1 || answer.Events[0].EventKey != delivered[0].EventKey || answer.Events[0].Identity != delivered[0].Identity {
			t.Errorf("%s:\nasked     %+v, %v\ndelivered %+v", c.answer, answer, err, delivered)
		}
	}
}

func TestWhomAnAnswerIsAbout(t *testing.T) {
	t.Parallel()
	m := asked(t, ", answer: {recipient: rcpt, category: list}").Messages
	const body = `{"to":"delivered","category":"dc","rcpt":"asked","list":"ac"}`
	for isAnswer, want := range map[bool][]string{false: {"delivered", "dc"}, true: {"asked", "ac"}} {
		if recipient, category := m.Details([]byte(body), isAnswer); !slices.Equal([]string{recipient, category}, want) {
			t.Errorf("an answer: %v: got %s, %s", isAnswer, recipient, category)
		}
	}
	if recipient, _ := asked(t, "").Messages.Details([]byte(body), true); recipient != "delivered" {
		t.Errorf("by default got %s", recipient)
	}
}

func TestFaultsOfAskingForMessages(t *testing.T) {
	t.Parallel()
	const custom = "preset: custom\n    scheme: {header: X, form: bare, signed: '{body}', algorithm: hmac-sha256, encoding: hex}\n    projection: messages\n" +
		"    messages: {statuses: {a: sent}}\n    secrets: [{env: A}]\n    reconcile: {base_url: 'http://h', token: {env: T}"
	const koltrix = "preset: koltrix\n    secrets: [{env: A}]\n    reconcile: {base_url: 'http://h', token: {env: T}"
	for settings, want := range map[string]string{
		koltrix + ", path: ''}":                                                        `f.yaml:5: sources.m.reconcile.path: "" is not a path to a message's status, such as /v1/messages/{id}, with {id} once`,
		koltrix + ", path: 'm/{id}'}":                                                  `f.yaml:5: sources.m.reconcile.path: "m/{id}" is not a path`,
		koltrix + ", path: '//m/{id}'}":                                                `f.yaml:5: sources.m.reconcile.path: "//m/{id}" is not a path`,
		koltrix + ", path: '/m/{id}/{id}'}":                                            `f.yaml:5: sources.m.reconcile.path: "/m/{id}/{id}" is not a path`,
		koltrix + ", path: '/m#{id}'}":                                                 `f.yaml:5: sources.m.reconcile.path: "/m#{id}" is not a path`,
		koltrix + ", horizon: 1m}":                                                     "f.yaml:5: sources.m.reconcile.horizon: 1m0s is before after, 1h0m0s",
		koltrix + ", answer: {type: 'form:s'}}":                                        "f.yaml:5: sources.m.reconcile.answer.type: an answer is JSON; give a path into it",
		koltrix + ", answer: {key: ['header:X']}}":                                     "f.yaml:5: sources.m.reconcile.answer.key[0]: an answer is JSON; give a path into it",
		koltrix + ", answer: {key: [a]}}":                                              "f.yaml:5: sources.m.reconcile.answer.key: it has 1 parts, and the source's key has 4; name the place of each, in the same order",
		koltrix + ", answer: {types: {b: bounce}}}":                                    `f.yaml:5: sources.m.reconcile.answer.types.b: messages.statuses has no type "bounce"; name one of it, or none`,
		koltrix + ", answer: {types: {b: ''}}}":                                        "f.yaml:5: sources.m.reconcile.answer.types.b: it is empty",
		koltrix + ", answer: {colour: red}}":                                           "f.yaml:5: sources.m.reconcile.answer.colour: there is no such key here; there are category, events, key, occurred_at, recipient, subject, type, types",
		koltrix + "}\n    key: body_hash":                                              "f.yaml:5: sources.m.reconcile.answer: an event that is asked for must have the key of its delivery, so the source's key cannot be body_hash",
		koltrix + "}\n    key: ['header:X-Id']":                                        "f.yaml:5: sources.m.reconcile.answer.key: the source's key has header:X-Id; say where each of its parts stands in an answer, which is JSON",
		koltrix + "}\n    occurred_at: 'form:t'":                                       "f.yaml:5: sources.m.reconcile.answer.occurred_at: a delivery has it at form:t; say where it stands in an answer, which is JSON",
		custom + "}\n    key: [id]\n    type: t\n    subject: id\n    occurred_at: at": `f.yaml:8: sources.m.reconcile.path: "" is not a path`,
	} {
		_, err := Parse("f.yaml", []byte("sources:\n  m:\n    "+settings+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}

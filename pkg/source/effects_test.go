package source

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const effectsFile = `sources:
  mail:
    preset: answerline
    secrets: [{env: A}]
    effects:
      - %s
`

// effectOf parses a file with one effect.
func effectOf(t *testing.T, lines string) *Effect {
	t.Helper()
	config, err := Parse("f.yaml", fmt.Appendf(nil, effectsFile, lines))
	if err != nil {
		t.Fatal(err)
	}
	return config.Sources[0].Effects[0]
}

func TestEffects(t *testing.T) {
	t.Parallel()
	e := effectOf(t, "{name: crm, http: {url: 'https://app.example/hooks', secret: {env: S}}}")
	if e.OnChange || e.Types != nil || e.HTTP.Body != BodyEvent || e.Timeout != 10*time.Second || e.MaxAttempts != 20 ||
		e.RetryBase != time.Second || e.RetryMax != 15*time.Minute {
		t.Errorf("the defaults are %+v", e)
	}
	e = effectOf(t, `{name: crm, on: change, types: [a, b], statuses: [FAILED], timeout: 3s, max_attempts: 5, retry_base: 2s, retry_max: 1m,
         http: {url: 'http://h', secret: {file: /f}, body: raw, headers: {x-team: crm, Authorization: {env: T}}}}`)
	if got := fmt.Sprintf("%+v", *e.HTTP); got != "{URL:http://h Secret:file /f Body:raw Headers:[{Name:Authorization Value: Place:environment variable T} {Name:X-Team Value:crm Place:file }]}" {
		t.Errorf("got %s", got)
	}
	if !e.OnChange || len(e.Types) != 2 || e.Timeout != 3*time.Second || e.MaxAttempts != 5 || e.RetryBase != 2*time.Second || e.RetryMax != time.Minute {
		t.Errorf("got %+v", e)
	}
	if e = effectOf(t, "{name: bus, nats: {subject: crm.bounced, confirm: server}}"); e.NATS.Confirm != ConfirmServer || e.NATS.Body != BodyEvent {
		t.Errorf("got %+v", e.NATS)
	}
	if e = effectOf(t, "{name: own, handler: ours, transaction: true}"); e.Handler != "ours" || !e.Transaction {
		t.Errorf("got %+v", e)
	}
	e = effectOf(t, `{name: chat, slack: {url: {env: U}, text: "{subject} is now {status}!"}}`)
	if got := e.Slack.Text.Fill(func(name string) string { return "<" + name + ">" }); got != "<subject> is now <status>!" {
		t.Errorf("the text is filled as %q", got)
	}
}

func TestWhatAnEffectMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect  Effect
		matches string
	}{
		{Effect{}, "bounce/bounced/true bounce/bounced/false sent/sent/true ping//false"},
		{Effect{OnChange: true}, "bounce/bounced/true sent/sent/true"},
		{Effect{Types: []string{"bounce", "ping"}}, "bounce/bounced/true bounce/bounced/false ping//false"},
		{Effect{Statuses: []string{"sent"}}, "sent/sent/true"},
		{Effect{OnChange: true, Statuses: []string{"bounced"}}, "bounce/bounced/true"},
	} {
		var matched []string
		for _, event := range []string{"bounce/bounced/true", "bounce/bounced/false", "sent/sent/true", "ping//false"} {
			parts := strings.Split(event, "/")
			if c.effect.Matches(parts[0], parts[1], parts[2] == "true") {
				matched = append(matched, event)
			}
		}
		if got := strings.Join(matched, " "); got != c.matches {
			t.Errorf("%+v matches %s, want %s", c.effect, got, c.matches)
		}
	}
}

func TestFaultsOfEffects(t *testing.T) {
	t.Parallel()
	const at = "f.yaml:6: sources.mail.effects[0]"
	const call = "http: {url: 'http://h', secret: {env: S}"
	for line, want := range map[string]string{
		"{" + call + "}}":                                                            at + ".name: give the effect a name: it stands in its rows and in its idempotency keys, and must stay the same",
		"{name: Crm, " + call + "}}":                                                 at + `.name: "Crm": a name has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or digit`,
		"{name: a, colour: red, " + call + "}}":                                      at + ".colour: there is no such key here; there are handler, http, max_attempts, name, nats, on, retry_base, retry_max, slack, statuses, timeout, transaction, types",
		"{name: a}":                                                                  at + ": give one of http, slack, nats and handler",
		"{name: a, handler: b, " + call + "}}":                                       at + ": give one of http, slack, nats and handler",
		"{name: a, on: delivery, " + call + "}}":                                     at + `.on: "delivery" is not one of event, change`,
		"{name: a, types: [], " + call + "}}":                                        at + ".types: the list is empty; leave the key out for an effect of all",
		"{name: a, statuses: COMPLETED, " + call + "}}":                              at + ".statuses: this must be a list",
		"{name: a, timeout: 0s, " + call + "}}":                                      at + ".timeout: 0s is too short: use at least 1ms",
		"{name: a, timeout: 6m, " + call + "}}":                                      at + ".timeout: 6m0s is too long: use at most 5m0s",
		"{name: a, max_attempts: 0, " + call + "}}":                                  at + `.max_attempts: "0" is not a number from 1 to 1000`,
		"{name: a, max_attempts: 2.5, " + call + "}}":                                at + ".max_attempts: 2.5 is not a whole number",
		"{name: a, retry_base: 1h, " + call + "}}":                                   at + ".retry_max: 15m0s is less than retry_base, 1h0m0s",
		"{name: a, handler: ''}":                                                     at + ".handler: it is empty",
		"{name: a, transaction: true, " + call + "}}":                                at + ".transaction: only a handler can run within the transaction",
		"{name: a, transaction: true, handler: b, timeout: 1s}":                      at + ".timeout: a handler within the transaction is tried again with its event, as the processor's settings say",
		"{name: a, http: {url: 'ftp://h', secret: {env: S}}}":                        at + ".http.url: this is not an http or https URL",
		"{name: a, http: {url: 'http://h'}}":                                         at + ".http.secret: name the place of the secret that calls are signed with, such as {env: CRM_SECRET}",
		"{name: a, http: {url: 'http://h', secret: hunter2}}":                        at + ".http.secret: give the secret's place, {env: NAME} or {file: /path}, never the secret",
		"{name: a, " + call + ", body: json}}":                                       at + `.http.body: "json" is not one of event, raw`,
		"{name: a, " + call + ", headers: {Webhook-ID: a}}}":                         at + ".http.headers.Webhook-ID: calls have this header already",
		"{name: a, " + call + ", headers: {'a b': a}}}":                              at + ".http.headers.a b: this is no header's name",
		"{name: a, " + call + `, headers: {a: "b\nc"}}}`:                             at + ".http.headers.a: a header's value has one line",
		"{name: a, slack: {url: 'https://hooks.slack/hunter2', text: a}}":            at + ".slack.url: give the secret's place, {env: NAME} or {file: /path}, never the secret",
		"{name: a, slack: {url: {env: U}}}":                                          at + `.slack.text: give the message, such as "{subject} is now {status}"`,
		"{name: a, slack: {url: {env: U}, text: '{who} is {status}'}}":               at + ".slack.text: {who} is none of the placeholders {source}, {type}, {subject}, {status}, {previous}, {event_key}, {time}",
		"{name: a, slack: {url: {env: U}, text: '{status} of {who'}}":                at + ".slack.text: {who is none of the placeholders {source}, {type}, {subject}, {status}, {previous}, {event_key}, {time}",
		"{name: a, nats: {subject: 'crm.*'}}":                                        at + `.nats.subject: "crm.*" is not a subject to publish on, such as crm.bounced`,
		"{name: a, nats: {subject: crm..x}}":                                         at + `.nats.subject: "crm..x" is not a subject to publish on, such as crm.bounced`,
		"{name: a, nats: {subject: catchwater.inbox.mail}}":                          at + `.nats.subject: "catchwater.inbox.mail" is kept for Catchwater's and the broker's own messages`,
		"{name: a, nats: {subject: crm, confirm: nobody}}":                           at + `.nats.confirm: "nobody" is not one of stream, server`,
		"{name: a, handler: b}\n      - {name: a, handler: c}":                       `f.yaml:7: sources.mail.effects[1].name: "a" is the name of another effect of this source`,
		"name: a\n        handler: b\n        timeout: 6m":                           "f.yaml:8: sources.mail.effects[0].timeout: 6m0s is too long: use at most 5m0s",
		"name: a\n        max_attempts: 2.5\n        handler: b":                     "f.yaml:7: sources.mail.effects[0].max_attempts: 2.5 is not a whole number",
		"name: a\n        handler: b\n        retry_base: 1h":                        "f.yaml:8: sources.mail.effects[0].retry_max: 15m0s is less than retry_base, 1h0m0s",
		"name: a\n        retry_base: 1h\n        handler: b\n        retry_max: 1m": "f.yaml:9: sources.mail.effects[0].retry_max: 1m0s is less than retry_base, 1h0m0s",
		"{name: a, handler: b, on: change}\n    projection: none":                    `f.yaml:6: sources.mail.effects: effect "a" is on: change, and projection none changes nothing; use on: event`,
		"{name: a, handler: b, statuses: [COMPLETED]}\n    projection: none":         `f.yaml:6: sources.mail.effects: effect "a" is for some statuses, and projection none gives none; use types`,
		"{name: a, handler: b, statuses: [completed]}":                               `f.yaml:6: sources.mail.effects: effect "a" is for the status "completed", which no event of this source gives; there are COMPLETED, FAILED`,
	} {
		faultsOf(t, fmt.Sprintf(effectsFile, line), want)
	}
	many := strings.Repeat("\n      - {name: a, handler: b}", maxEffects)
	if _, err := Parse("f.yaml", fmt.Appendf(nil, effectsFile, "{name: b, handler: c}"+many)); err == nil || !strings.Contains(err.Error(), "a source may have 32") {
		t.Errorf("33 effects: %v", err)
	}
}

func TestAnEffectsSecretsSignAsStandardWebhooksDo(t *testing.T) {
	t.Parallel()
	file := newSecretFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n")
	e := effectOf(t, "{name: crm, http: {url: 'http://h', secret: {file: '"+file.path+"'}}}")
	s := &Source{Name: "mail"}
	k, err := OpenEffectKeyring(s, e, os.Getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// The first secret, id, time, body and signature are the specification's own.
	h := http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}}
	if err := k.Sign(h, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)); err != nil {
		t.Fatal(err)
	}
	signatures := strings.Fields(h.Get("Webhook-Signature"))
	if h.Get("Webhook-Timestamp") != "1614265330" || len(signatures) != 2 || signatures[0] != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signed with %v", h)
	}
	file.write("too short")
	if _, err := OpenEffectKeyring(s, e, os.Getenv, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), `source "mail", effect "crm": file `) || strings.Contains(err.Error(), "too short") {
		t.Errorf("got %v", err)
	}
}

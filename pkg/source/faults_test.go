package source

import (
	"strings"
	"testing"
)

// TestFaultsOfAFile has files that are wrong as a whole, and what is said.
func TestFaultsOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              "f.yaml:1: sources: the file is empty; see docs/sources.md",
		"# nothing yet": "f.yaml:1: sources: the file is empty; see docs/sources.md",
		"sources: {}":   "f.yaml:1: sources: no source is configured",
		"sources:":      "f.yaml:1: sources: this must be a mapping of keys to values",
		"- a":           "f.yaml:1: sources: this must be a mapping of keys to values",
		"sources:\n  a: {preset: github, secrets: [{env: A}]}\nsinks: 1":                  "f.yaml:3: sinks: there is no such key here; there are sources",
		"sources:\n  a: {preset: github, secrets: [{env: A}]}\n---\nsources: {}":          "f.yaml:4: ---: a second document begins before this; put all sources into one",
		"sources:\n  a: {preset: github, secrets: [{env: A}]}\n  a: {preset: github}\n":   `f.yaml:3: not YAML: mapping key "a" already defined at [2:3]`,
		"sources:\n  a:\n    preset: github\n    secrets: [{env: A}]\n    preset: stripe": `f.yaml:5: not YAML: mapping key "preset" already defined at [3:5]`,
		"sources:\n  a: [\n": "f.yaml:2: not YAML: sequence end token ']' not found",
		"sources:\n  A_b: {preset: github, secrets: [{env: A}]}":                             "f.yaml:2: sources.A_b: a source's name has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or digit",
		"sources:\n  " + strings.Repeat("a", 64) + ": {preset: github, secrets: [{env: A}]}": "a source's name has 1 to 63",
		"sources:\n\n  a: github": "f.yaml:3: sources.a: this must be a mapping of keys to values",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestFaultsOfASource has one line each that is wrong, on line 5 of a source
// that is right without it, and all that is said of it.
func TestFaultsOfASource(t *testing.T) {
	t.Parallel()
	const at = "f.yaml:5: sources.mine."
	for line, want := range map[string]string{
		"colour: red": at + "colour: there is no such key here; there are effects, events, gzip, keep_headers, key, max_body, messages, occurred_at, preset, " +
			"projection, provisional, reconcile, reject_status, scheme, secrets, subject, test, tolerance, type",
		"tolerance: 300":                           at + `tolerance: "300" is not a duration such as 300s, 5m or 1h30m`,
		"tolerance: -1s":                           at + "tolerance: -1s is too short: use at least 0s",
		"tolerance: [1s]":                          at + "tolerance: this must be a single value",
		"tolerance:":                               at + "tolerance: there is no value",
		"tolerance: &x 1s":                         at + "tolerance: anchors and aliases are not read; write the value out",
		"keep_headers: &x [X-One]":                 at + "keep_headers: anchors and aliases are not read; write the value out",
		"keep_headers: *x":                         at + "keep_headers: anchors and aliases are not read; write the value out",
		"scheme: &x {header: H}":                   at + "scheme: anchors and aliases are not read; write the value out",
		"scheme: *x":                               at + "scheme: anchors and aliases are not read; write the value out",
		"projection: emails":                       at + `projection: "emails" is not one of answers, messages, none`,
		"projection: messages":                     "f.yaml:2: sources.mine.messages.statuses: say which status each type of event gives",
		"messages: {create: true}":                 at + "messages: it is for projection: messages only",
		"events: 'a b'":                            at + `events: read the path "a b"`,
		"gzip: yes":                                at + `gzip: "yes" is not one of refused, decoded, wire`,
		"reject_status: 403":                       at + `reject_status: "403" is not one of 400, 401`,
		"max_body: 1TB":                            at + `max_body: "1TB" is not a size from 1024 to 268435456 bytes, such as 512KiB or 25MiB`,
		"max_body: 1000":                           at + `max_body: "1000" is not a size from`,
		"max_body: 99999999999999999999MiB":        at + `max_body: "99999999999999999999MiB" is not a size from`,
		"keep_headers: X-One":                      at + "keep_headers: this must be a list",
		"type: a..b":                               at + `type: read the path "a..b": a key must stand before`,
		"subject: ''":                              at + `subject: read the path "": it is empty`,
		"occurred_at: 'header:'":                   at + `occurred_at: read the path "header:"`,
		"key: task.id":                             at + "key: this must be a list of references, such as [task.id], or body_hash",
		"key: []":                                  at + "key: at least one part must not be optional",
		"key: [{optional: a}]":                     at + "key: at least one part must not be optional",
		"key: [a, {optinal: b}]":                   at + "key[1].optinal: there is no such key here; there are optional",
		"key: ['a b']":                             at + `key[0]: read the path "a b"`,
		"key: [" + strings.Repeat("a,", 16) + "b]": at + "key: it has 17 parts; at most 16 identify an event",
		"test: {fild: test}":                       at + "test.fild: there is no such key here; there are equals, field, in",
		"test: true":                               at + "test: this must be a mapping of keys to values",
		"test: {field: test}":                      at + `test: give field, and equals or in, such as {field: test, equals: "true"}; or none`,
		"provisional: {in: [A]}":                   at + "provisional: give field, and equals or in",
		"scheme: {form: list}":                     at + `scheme.form: "list" is not one of pairs, versioned, bare`,
		"scheme: {algorithm: md5}":                 at + `scheme.algorithm: "md5" is not one of hmac-sha256, hmac-sha1, hmac-sha512, ed25519, ecdsa-p256`,
		"scheme: {header: ''}":                     at + "scheme.header: it is empty",
		"scheme: {signed: '{t}'}":                  at + "scheme: signed: {body} must stand in it once",
		"scheme: {timestamp_key: '', signed: '{body}'}":                          at + "scheme: tolerance: there is no timestamp to judge; set timestamp_key or timestamp_header, or tolerance: 0s",
		"reconcile: {token: {env: T}}":                                           at + `reconcile.base_url: "" is not an http or https URL`,
		"reconcile: {base_url: 'ftp://h', token: {env: T}}":                      at + `reconcile.base_url: "ftp://h" is not an http or https URL`,
		"reconcile: {base_url: 'http://h'}":                                      at + "reconcile.token: name the place of the API's bearer key, such as {env: ANSWERLINE_API_KEY}",
		"reconcile: {base_url: 'http://h', token: {env: T}, rate: fast}":         at + `reconcile.rate: "fast" is not a number from 0.001 to 10000`,
		"reconcile: {base_url: 'http://h', token: {env: T}, rate: .nan}":         at + `reconcile.rate: this must be a single value`,
		"reconcile: {base_url: 'http://h', token: {env: T}, timeout: 0s}":        at + "reconcile.timeout: 0s is too short: use at least 1ms",
		"reconcile: {base_url: 'http://h', token: {env: T}, after: 5h}":          at + "reconcile.horizon: 4h48m0s is before after, 5h0m0s",
		"reconcile: {base_url: 'http://h', token: {env: T}, path: '/m/{id}'}":    at + "reconcile.path: it is for projection: messages only",
		"reconcile: {base_url: 'http://h', token: {env: T}, answer: {type: s}}":  at + "reconcile.answer: it is for projection: messages only",
		"reconcile: {base_url: 'http://h', token: {env: T}}\n    key: [job.id]":  at + "reconcile: a result that is asked for is known by its task's id, so key must be [task.id]",
		"reconcile: {base_url: 'http://h', token: {env: T}}\n    key: body_hash": at + "reconcile: a result that is asked for is known by its task's id, so key must be [task.id]",
	} {
		faultsOf(t, "sources:\n  mine:\n    preset: answerline\n    secrets: [{env: A}]\n    "+line+"\n", want)
	}
}

func TestFaultsOfPresetAndSecrets(t *testing.T) {
	t.Parallel()
	const known = "answerline, cloro, custom, github, koltrix, standard-webhooks, stripe"
	const place = "give the secret's place, {env: NAME} or {file: /path}, never the secret"
	for lines, want := range map[string]string{
		"secrets: [{env: A}]": "f.yaml:2: sources.my-own.preset: name one of " + known,
		"preset: answerlin\n    secrets: [{env: A}]\n    reconcile: {base_url: 'http://h', token: {env: T}}": `f.yaml:3: sources.my-own.preset: "answerlin" is not one of ` + known,
		"preset: github":                                    "f.yaml:2: sources.my-own.secrets: name at least one secret, such as secrets: [{env: MY_OWN_SECRET}]",
		"preset: github\n    secrets: []":                   "f.yaml:4: sources.my-own.secrets: the list is empty; without a secret nothing can be verified",
		"preset: github\n    secrets: [hunter2hunter2]":     "f.yaml:4: sources.my-own.secrets[0]: " + place,
		"preset: github\n    secrets: [{env: A, file: /b}]": "f.yaml:4: sources.my-own.secrets[0]: " + place,
		"preset: github\n    secrets: [&x {env: A}]":        "f.yaml:4: sources.my-own.secrets[0]: anchors and aliases are not read; write the value out",
		"preset: github\n    secrets: *x":                   "f.yaml:4: sources.my-own.secrets: anchors and aliases are not read; write the value out",
		"preset: github\n    secrets: [{}]":                 "f.yaml:4: sources.my-own.secrets[0]: " + place,
		"preset: stripe\n    secrets: [{env: A}]\n    reconcile: {base_url: 'http://h', token: {env: T}}": "f.yaml:5: sources.my-own.reconcile: only preset answerline, and sources with projection: messages, can be asked",
		"preset: github\n    secrets: [{env: A}]\n    tolerance: 5m":                                      "f.yaml:5: sources.my-own.tolerance: there is no timestamp to judge; set timestamp_key or timestamp_header, or tolerance: 0s",
	} {
		faultsOf(t, "sources:\n  my-own:\n    "+lines+"\n", want)
	}
}

// faultsOf parses a file that has one fault.
func faultsOf(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse("f.yaml", []byte(text))
	switch {
	case err == nil || !strings.HasPrefix(err.Error(), want):
		t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%q: one fault is told as several:\n%v", text, err)
	case strings.Contains(err.Error(), "hunter2"):
		t.Errorf("%q: the error tells the secret: %v", text, err)
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	const text = `sources:
  a:
    preset: nobody
    secrets: [{env: A}]
  b:
    preset: stripe
    secrets: [{env: A}]
    max_body: lots
    reconcil: {}
  c:
    preset: custom
    secrets: [{env: C}]
`
	_, err := Parse("f.yaml", []byte(text))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{
		"f.yaml:3: sources.a.preset: ", "f.yaml:8: sources.b.max_body: ", "f.yaml:9: sources.b.reconcil: ",
		"f.yaml:10: sources.c.scheme: header: ", "f.yaml:10: sources.c.scheme: signed: ", "f.yaml:10: sources.c.scheme: algorithm: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said in:\n%v", want, err)
		}
	}
}

func TestASyntaxErrorQuotesNothing(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("sources:\n  a:\n    secrets: [hunter2hunter2\n    preset: github\n"))
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "f.yaml:") {
		t.Errorf("got %v", err)
	}
}

package source

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// keyed is a source with these lines of identity.
func keyed(t *testing.T, lines ...string) *Source {
	t.Helper()
	return parseOne(t, append([]string{"preset: custom", "secrets: [{env: A}]",
		"scheme: {header: X-Sig, form: bare, signed: '{body}', algorithm: hmac-sha256, encoding: hex}"}, lines...)...)
}

func TestSinglePartKeys(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [task.id]")
	long := strings.Repeat("k", MaxEventKey)
	for content, want := range map[string]string{
		`{"task":{"id":"t1"}}`:                         "t1",
		`{"task":{"id":"t\u0031"}}`:                    "t1",
		`{"task":{"id":12.50}}`:                        "12.50",
		`{"task":{"id":true}}`:                         "true",
		`{"task":{"id":"a|b\\"}}`:                      `a|b\`,
		`{"task":{"id":"first"},"task":{"id":"last"}}`: "last",
		"{\"task\":{\"id\":\"t1\"}}\r\n":               "t1",
		`{"task":{"id":"` + long + `"}}`:               long,
		`{"task":{"id":"` + long + `k"}}`:              hashKey([]byte(long + "k")),
		`{"task":{"id":"a\u0000b"}}`:                   hashKey([]byte("a\x00b")),
		"{\"task\":{\"id\":\"caf\xe9\"}}":              hashKey([]byte("\"caf\xe9\"")),
		`{"task":{"id":"\ud800"}}`:                     hashKey([]byte(`"\ud800"`)),
		`{"task":{"id":"\"\\ud800\""}}`:                `"\ud800"`,
	} {
		if id := s.Identify(nil, []byte(content)); id.EventKey != want || id.Quarantine != "" || id.Test {
			t.Errorf("%s: %+v, want the key %q", content, id, want)
		}
	}
}

func TestDeliveriesWithoutTheirKeyAreQuarantined(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [task.id]")
	const missing = "the delivery has no task.id, which identifies it"
	for content, want := range map[string]string{
		"":                          "the body is not JSON: at byte 0: the document ends early", // hard input 8
		"payload=%7B%22a%22%3A1%7D": "the body is not JSON: at byte 0: no value begins like this",
		"{} {}":                     "the body is not JSON: at byte 3: there is more after the document's end",
		"{}":                        missing,
		`"task"`:                    missing,
		`{"task":{"id":null}}`:      missing,
		`{"task":{"id":""}}`:        missing,
		`{"task":{"ID":"t1"}}`:      missing,
		`{"task":[{"id":"t1"}]}`:    missing,
		`{"task":{"id":{"a":1}}}`:   "the delivery's task.id is not a single value, so it cannot identify it",
		`{"task":{"id":["t1"]}}`:    "the delivery's task.id is not a single value, so it cannot identify it",
	} {
		if id := s.Identify(nil, []byte(content)); id.Quarantine != want || id.EventKey != hashKey([]byte(content)) {
			t.Errorf("%q: %+v, want it quarantined: %s", content, id, want)
		}
	}
}

func TestHardInput08_AnEmptyBodyHasNoKey(t *testing.T) {
	t.Parallel()
	id := parseOne(t, "preset: answerline", "secrets: [{env: A}]").Identify(http.Header{}, nil)
	const emptySHA256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if id.EventKey != emptySHA256 || id.Quarantine == "" || id.Test {
		t.Errorf("%+v", id)
	}
}

func TestHardInput20_KeysWithNUL(t *testing.T) {
	t.Parallel()
	s := parseOne(t, "preset: answerline", "secrets: [{env: A}]")
	for content, want := range map[string]string{
		`{"task":{"id":"t1"},"response":{"result":"x\u0000y"}}`:  "t1",
		`{"task":{"id":"t1"},"response":{"result":"x\\u0000y"}}`: "t1",
		`{"task":{"id":"x\u0000y"}}`:                             hashKey([]byte("x\x00y")),
		`{"task":{"id":"x\\u0000y"}}`:                            `x\u0000y`,
	} {
		id := s.Identify(nil, []byte(content))
		if id.EventKey != want || id.Quarantine != "" || strings.ContainsRune(id.Subject, 0) {
			t.Errorf("%s: %+v, want the key %q", content, id, want)
		}
	}
}

// TestJoinedKeysAreUnambiguous has deliveries that are all different events.
func TestJoinedKeysAreUnambiguous(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [a, {optional: b}, {optional: 'header:X-C'}]")
	seen := make(map[string]string)
	for _, d := range []struct{ content, c string }{
		{`{"a":"1"}`, ""}, {`{"a":"1"}`, "3"}, {`{"a":"1","b":"2"}`, ""}, {`{"a":"1","b":"2"}`, "3"}, {`{"a":"1|2"}`, ""}, {`{"a":"1|2"}`, "3"},
		{`{"a":"1\\","b":"2"}`, ""}, {`{"a":"1\\|2"}`, ""}, {`{"a":"1","b":"\\-"}`, ""}, {`{"a":"1","b":"-"}`, ""}, {`{"a":"1","b":"2|\\-"}`, ""},
		{`{"a":"1","b":["x"]}`, ""}, {`{"a":"1","b":["y"]}`, ""}, {`{"b":"1"}`, ""},
	} {
		h := http.Header{}
		if d.c != "" {
			h.Set("X-C", d.c)
		}
		key := s.Identify(h, []byte(d.content)).EventKey
		if other, taken := seen[key]; taken {
			t.Errorf("%s %s has the key of %s: %s", d.content, d.c, other, key)
		}
		seen[key] = d.content + " " + d.c
	}
	// What is missing, null and empty is missing alike.
	for _, content := range []string{`{"a":"1","b":null}`, `{"a":"1","b":""}`, `{"b":"","a":"1"}`} {
		if id := s.Identify(nil, []byte(content)); id.EventKey != `1|\-|\-` || id.Quarantine != "" {
			t.Errorf("%s: %+v", content, id)
		}
	}
}

func TestKeysFromFormsHeadersAndNothing(t *testing.T) {
	t.Parallel()
	form := keyed(t, "key: ['form:MessageSid', 'form:MessageStatus']", "type: form:MessageStatus")
	if id := form.Identify(nil, []byte("MessageStatus=delivered&MessageSid=SM%7C1")); id.EventKey != `SM\|1|delivered` || id.EventType != "delivered" {
		t.Errorf("form: %+v", id)
	}
	if id := form.Identify(nil, []byte("MessageSid=SM1")); id.Quarantine != "the delivery has no form:MessageStatus, which identifies it" {
		t.Errorf("form: %+v", id)
	}
	inHeader := keyed(t, "key: ['header:x-delivery']")
	if id := inHeader.Identify(http.Header{"X-Delivery": {"d1"}}, []byte("<xml/>")); id.EventKey != "d1" || id.Quarantine != "" {
		t.Errorf("header: %+v", id)
	}
	for _, h := range []http.Header{{}, {"X-Delivery": {""}}, {"X-Delivery": {"d1", "d2"}}} {
		if id := inHeader.Identify(h, []byte("<xml/>")); id.Quarantine == "" || id.EventKey != hashKey([]byte("<xml/>")) {
			t.Errorf("header %v: %+v", h, id)
		}
	}
	if id := inHeader.Identify(http.Header{"X-Delivery": {"caf\xe9"}}, nil); id.EventKey != hashKey([]byte("caf\xe9")) {
		t.Errorf("header over 0x7F: %+v", id)
	}
	if id := keyed(t).Identify(nil, []byte("anything")); id.EventKey != hashKey([]byte("anything")) || id.Quarantine != "" {
		t.Errorf("body_hash: %+v", id)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [id]", "test: {field: test, equals: True}", "provisional: {field: status, in: [QUEUED, PROCESSING]}")
	for content, want := range map[string]Identity{
		`{"id":"1","test":true}`:                   {Test: true},
		`{"test":true}`:                            {Test: true},
		`{"id":"1","test":false}`:                  {EventKey: "1"},
		`{"id":"1","test":1}`:                      {EventKey: "1"},
		`{"id":"1","status":"DONE"}`:               {EventKey: "1"},
		`{"id":"1","status":null}`:                 {EventKey: "1"},
		`{"id":"1","status":"PROCESSING"}`:         {EventKey: hashKey([]byte(`{"id":"1","status":"PROCESSING"}`)), Quarantine: "status is PROCESSING, which is not final"},
		`{"id":"1","test":true,"status":"QUEUED"}`: {Test: true},
	} {
		if id := s.Identify(nil, []byte(content)); id != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", content, id, want)
		}
	}
}

func TestTextIsSafeAndBounded(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [id]", "subject: s", "type: 'header:X-Type'")
	for subject, want := range map[string]string{
		// What cannot be stored as it is keeps its own name: two subjects never become one.
		`"a\u0000b"`: hashKey([]byte("a\x00b")), "\"caf\xe9\"": hashKey([]byte("\"caf\xe9\"")), `"\ud800"`: hashKey([]byte(`"\ud800"`)),
		`{"a":1}`: "", "7": "7",
		`"` + strings.Repeat("x", 511) + `é"`: hashKey([]byte(strings.Repeat("x", 511) + "é")),
		`"` + strings.Repeat("x", 510) + `é"`: strings.Repeat("x", 510) + "é",
	} {
		id := s.Identify(http.Header{"X-Type": {"t\xff"}}, []byte(`{"id":"1","s":`+subject+`}`))
		if id.Subject != want || id.EventType != "t\uFFFD" || !utf8.ValidString(id.Subject) || len(id.Subject) > MaxEventKey {
			t.Errorf("%.40q: type %q, subject %q; want %q", subject, id.EventType, id.Subject, want)
		}
	}
}

func TestOccurredAt(t *testing.T) {
	t.Parallel()
	s := keyed(t, "key: [id]", "occurred_at: at")
	at := func(nanos int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, nanos, time.UTC) }
	for text, want := range map[string]time.Time{
		`"2026-01-02T03:04:05Z"`:           at(0),
		`"2026-01-02T04:04:05.5+01:00"`:    at(500_000_000),
		`"2026-01-02T13:04:05+1000"`:       at(0),
		`"2026-01-02T03:04:05.123456789Z"`: at(123_456_789),
		`"2026-01-02T03:04:05"`:            at(0),
		`"2026-01-02T03:04Z"`:              at(0).Truncate(time.Minute),
		`1767323045`:                       at(0),
		`"1767323045"`:                     at(0),
		`1767323045.25`:                    at(250_000_000),
		`1767323045123`:                    at(123_000_000),
		`1.767323045e9`:                    at(0),
		`"soon"`:                           {}, `-1`: {}, `0`: {}, `"NaN"`: {}, `1e400`: {}, `null`: {}, `""`: {}, `[]`: {},
		`"2026-13-02T03:04:05Z"`: {}, `"0001-01-01T00:00:00Z"`: {}, `1e18`: {},
	} {
		id := s.Identify(nil, []byte(`{"id":"1","at":`+text+`}`))
		if !id.OccurredAt.Equal(want) || id.EventKey != "1" || id.Quarantine != "" {
			t.Errorf("%s: %+v, want %s", text, id, want)
		}
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	s := keyed(t, "keep_headers: [x-one, x-two, x-three]")
	kept := s.Keep(http.Header{"X-One": {"a", "b"}, "X-Two": {"\x00\xff" + strings.Repeat("y", 2000)}, "X-Four": {"no"}})
	if len(kept) != 2 || kept["X-One"] != "a, b" || !strings.HasPrefix(kept["X-Two"], "\uFFFD\uFFFDy") || len(kept["X-Two"]) != maxHeaderValue {
		t.Errorf("%d headers, %q, %d bytes", len(kept), kept["X-One"], len(kept["X-Two"]))
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"x"},"t":1767323045,"test":true}`), "h")
	f.Add([]byte("a=1&b=%zz;"), "\xff\x00")
	config, err := Parse("f.yaml", []byte(`sources:
  s:
    preset: custom
    secrets: [{env: A}]
    scheme: {header: X-Sig, form: bare, signed: '{body}', algorithm: hmac-sha256, encoding: hex}
    key: [a.b, {optional: 'form:b'}, {optional: 'header:X-H'}]
    type: a.b
    subject: header:X-H
    occurred_at: t
    test: {field: test, equals: true}
`))
	if err != nil {
		f.Fatal(err)
	}
	s := config.Lookup("s")
	f.Fuzz(func(t *testing.T, content []byte, value string) {
		id := s.Identify(http.Header{"X-H": {value}}, content)
		if id.Test {
			return
		}
		for _, text := range []string{id.EventKey, id.EventType, id.Subject} {
			if len(text) > MaxEventKey || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Errorf("%q is not safe", text)
			}
		}
		if id.EventKey == "" {
			t.Error("there is no key")
		}
	})
}

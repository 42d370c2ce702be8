package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestScanFindsValues(t *testing.T) {
	t.Parallel()
	const doc = " {\"task\": {\"id\": \"t1\", \"n\": -0.5e+3, \"\\u0061\": true}, \"a.b\": [ {\"x\": null}, \"zw\xffei\" ],\r\n\"task2\":{},\"dup\":{\"a\":1},\"dup\":{\"b\":2}} "
	for path, want := range map[string]string{
		"task.id": `"t1"`, "$.task.n": "-0.5e+3", "task.a": "true", `["a.b"][0].x`: "null", `$["a.b"][1]`: "\"zw\xffei\"",
		"task2": "{}", "dup": `{"b":2}`, "dup.b": "2",
		"dup.a": "", "task.id.x": "", "nope": "", "task[0]": "", `["a.b"].x`: "", `["a.b"][2]`: "", "tas": "",
	} {
		values, err := Scan([]byte(doc), MustParsePath(path))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(values[0].Raw); got != want || (want == "") != (values[0].Kind == Missing) {
			t.Errorf("%s: got %q (%s), want %q", path, got, values[0].Kind, want)
		}
	}
	values, err := Scan([]byte(doc), MustParsePath("$"))
	if err != nil || values[0].Kind != Object || !bytes.Equal(values[0].Raw, bytes.TrimSpace([]byte(doc))) {
		t.Errorf("$: got %q, %v", values[0].Raw, err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, want string
		repaired  bool
	}{
		{`"plain"`, "plain", false},
		{`"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00é"`, "\"\\/\b\f\n\r\t\u00e9\U0001F600é", false},
		{`"a\u0000b"`, "a\x00b", false},
		{`"\ud800"`, "\uFFFD", true},
		{`"\ud800\u0041"`, "\uFFFDA", true},
		{`"\ud800\ud83d\ude00"`, "\uFFFD\U0001F600", true},
		{"\"\xc3\"", "\uFFFD", true},
		{"\"\\n\xc3\"", "\n\uFFFD", true},
		{"\"\xff\xfe\"", "\uFFFD\uFFFD", true}, // one each, as in encoding/json
		{`12.50`, "12.50", false},
		{`true`, "true", false},
	} {
		values, err := Scan([]byte(c.raw), MustParsePath("$"))
		if err != nil {
			t.Fatalf("%s: %v", c.raw, err)
		}
		if got, repaired := values[0].Text(); got != c.want || repaired != c.repaired {
			t.Errorf("%s: got %q, %v; want %q, %v", c.raw, got, repaired, c.want, c.repaired)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	for doc, offset := range map[string]int{
		"": 0, "  ": 2, "{": 1, `{"a"}`: 4, `{"a":}`: 5, `{"a":1,}`: 7, "[1,]": 3, "[1 2]": 3, "01": 1, "1.": 2, "-": 1, "1e": 2,
		`"a`: 2, "\"a\nb\"": 2, `"\x"`: 2, `"\u12g4"`: 5, "nul": 0, "{} {}": 3, `{a:1}`: 1, "\xef\xbb\xbf{}": 0,
	} {
		_, err := Scan([]byte(doc))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset != offset {
			t.Errorf("%q: got %v, want a syntax error at byte %d", doc, err, offset)
		}
	}
	if _, err := Scan([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))); err == nil {
		t.Error("nesting beyond the limit was taken")
	}
	if _, err := Scan([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil {
		t.Errorf("nesting up to the limit: %v", err)
	}
}

func TestParsePathRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "a.", "a..b", ".a", "a[", "a[x]", "a[-1]", `a["b]`, `["a"]b`, "a b", "$a"} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%q was taken as %v", text, p.steps)
		}
	}
}

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":"c"}}`, `{"a":{"b":1},"a":{"b":2}}`, `[1,2.5e-3,"\ud83d\ude00"]`, "{\"a\":\"\xff\"}", `{"A":1,"a":null}`} {
		f.Add([]byte(seed))
	}
	path := MustParsePath("a.b")
	f.Fuzz(func(t *testing.T, doc []byte) {
		values, err := Scan(doc, path)
		if valid := json.Valid(doc); valid != (err == nil) {
			t.Fatalf("encoding/json says %v, Scan says %v", valid, err)
		}
		if err != nil {
			return
		}
		var outer, inner map[string]json.RawMessage
		_ = json.Unmarshal(doc, &outer)
		_ = json.Unmarshal(outer["a"], &inner)
		if want := bytes.TrimSpace(inner["b"]); !bytes.Equal(values[0].Raw, want) {
			t.Fatalf("encoding/json finds %q, Scan finds %q", want, values[0].Raw)
		}
		if values[0].Kind == String {
			var want string
			_ = json.Unmarshal(values[0].Raw, &want)
			if got, _ := values[0].Text(); got != want {
				t.Fatalf("encoding/json reads %q, Text reads %q", want, got)
			}
		}
	})
}

func BenchmarkScan(b *testing.B) {
	doc := []byte(`{"task":{"id":"t1","taskType":"x","status":"COMPLETED","createdAt":"2026-01-02T03:04:05Z","idempotencyKey":"k"},"response":{"result":{"text":"` + strings.Repeat("lorem ipsum ", 160) + `"}}}`)
	paths := []Path{MustParsePath("task.id"), MustParsePath("task.status"), MustParsePath("response"), MustParsePath("test")}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Scan(doc, paths...); err != nil {
			b.Fatal(err)
		}
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	for document, want := range map[string][]string{
		`[]`: nil, `[ ]`: nil, `{"a":[1]}`: nil, `7`: nil,
		`[1]`: {"1"}, ` [ {"a":[1,2]} , "x,]" ,[ ],null , 1e2 ] `: {`{"a":[1,2]}`, `"x,]"`, `[ ]`, `null`, `1e2`},
	} {
		values, err := Scan([]byte(document), MustParsePath("$"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, element := range Elements(values[0]) {
			got = append(got, string(element))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}

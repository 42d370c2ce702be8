package answers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := `{"task":{"id":"t","status":"COMPLETED","createdAt":"2026-01-02T03:04:05Z"}}`
	for want, body := range map[string]string{
		"not JSON":                    `{"task"`,
		"no task.id":                  strings.Replace(good, `"t"`, `{}`, 1),
		`task.status is "PROCESSING"`: strings.Replace(good, "COMPLETED", "PROCESSING", 1),
		`task.status is ""`:           strings.Replace(good, "status", "state", 1),
		`task.createdAt "soon"`:       strings.Replace(good, "2026-01-02T03:04:05Z", "soon", 1),
	} {
		_, err := Decode(inbox.Row{EventKey: "t", Body: []byte(body)})
		var permanent *inbox.PermanentError
		if !errors.As(err, &permanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := Decode(inbox.Row{EventKey: "t"}); err == nil || !strings.Contains(err.Error(), "dropped") {
		t.Errorf("without a payload: %v", err)
	}
	result, err := Decode(inbox.Row{EventKey: "t", Body: []byte(good)})
	if err != nil || result.JobKey != "task:t" || result.Response != nil {
		t.Errorf("got %+v, %v", result, err)
	}
}

// TestLongAndOddNames keeps apart what shortening or repairing could make equal.
func TestLongAndOddNames(t *testing.T) {
	t.Parallel()
	body := func(id, key string) []byte {
		return []byte(`{"task":{"id":"` + id + `","status":"FAILED","createdAt":"2026-01-02T03:04Z","idempotencyKey":"` + key + `"}}`)
	}
	for _, id := range []string{strings.Repeat("x", 600), "a\xff", `a\u0000`} {
		result, err := Decode(inbox.Row{EventKey: "sha256:of-it", Body: body(id, strings.Repeat("k", 5000))})
		if err != nil {
			t.Fatal(err)
		}
		if result.TaskID != "sha256:of-it" || len(result.JobKey) > maxKey || len(result.IdempotencyKey) > maxKey {
			t.Errorf("%.10q: task %q, job key of %d bytes", id, result.TaskID, len(result.JobKey))
		}
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":[1,-2.5e10,true,null,"x"]}`: "",
		`"\\u0000 \" \ud83d\ude00 é"`:     "",
		`"a\u0000b"`:                      `"a` + "\uFFFD" + `b"`,
		`"\ud800"`:                        `"` + "\uFFFD" + `"`,
		`"\ud800\ud83d\ude00"`:            `"` + "\uFFFD" + `\ud83d\ude00"`,
		"\"\xff\xfe\"":                    "\"\uFFFD\uFFFD\"",
		`[1e400000,-1e-400000]`:           `["1e400000","-1e-400000"]`,
		`{"\u0000":1}`:                    `{"` + "\uFFFD" + `":1}`,
		"1" + strings.Repeat("0", 20_000): `"1` + strings.Repeat("0", 20_000) + `"`,
	} {
		got, changed := Repair([]byte(in))
		if want == "" {
			want = in
		}
		if string(got) != want || changed != (want != in) {
			t.Errorf("%.60q: got %.60q, %v; want %.60q", in, got, changed, want)
		}
	}
}

// FuzzRepairedIsJSONB holds Repair to what it is for: whatever Go takes for
// JSON, jsonb takes once it is repaired.
func FuzzRepairedIsJSONB(f *testing.F) {
	for _, seed := range []string{`"\u0000"`, `"\ud800x"`, "\"\xff\"", "1e999999", `-0.0e-0`, `{"a":{"a":1},"a":2}`, `"\udc00\ud800"`} {
		f.Add([]byte(seed))
	}
	conn, err := pgx.Connect(context.Background(), pgtest.Empty(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		out, _ := Repair(in)
		var ok bool
		if err := conn.QueryRow(context.Background(), "select $1::text::jsonb is not null", string(out)).Scan(&ok); err != nil {
			t.Fatalf("%q was repaired to %q: %v", in, out, err)
		}
	})
}

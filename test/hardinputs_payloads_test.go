package test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

func task(id, response string) []byte {
	return fmt.Appendf(nil, `{"task":{"id":%q,"taskType":"answer","status":"COMPLETED","createdAt":"2026-01-02T03:04:05Z","idempotencyKey":null}%s}`, id, response)
}

// answered posts a delivery about a task and checks what the answer is.
func (h hard) answered(t *testing.T, id string, body []byte, where string, args ...any) {
	t.Helper()
	expect(t, harness.Post(t, h.ingress.Addr, "/hooks/answers", body, harness.Secret), 204)
	h.stored(t, "answers", body, "processed")
	if n := h.Int("select count(*) from answers where task_id = $1 and "+where, append([]any{id}, args...)...); n != 1 {
		t.Errorf("task %s: the answer is not as it should be: %s", id, where)
	}
}

func hard20(t *testing.T, h hard) {
	h.answered(t, "nul", task("nul", `,"response":{"result":"x\u0000y"}`), "response_repaired and response->>'result' = $2", "x\uFFFDy")
	h.answered(t, "not-nul", task("not-nul", `,"response":{"result":"x\\u0000y"}`), `not response_repaired and response->>'result' = $2`, `x\u0000y`)
}

func hard21(t *testing.T, h hard) {
	h.answered(t, "utf8", task("utf8", ",\"response\":{\"result\":\"a\xffb\"}"), "response_repaired and response->>'result' = $2", "a\uFFFDb")
	h.answered(t, "half", task("half", `,"response":{"result":"a\ud800b"}`), "response_repaired and response->>'result' = $2", "a\uFFFDb")
	h.answered(t, "huge", task("huge", `,"response":{"result":1e400000}`), "response_repaired and response->>'result' = $2", "1e400000")
}

func hard22(t *testing.T, h hard) {
	const limit = 1 << 20
	for size, want := range map[int]int{limit * 9 / 10: 204, limit: 204, limit + 1: 413, limit * 11 / 10: 413} {
		body := []byte(`"` + strings.Repeat("x", size-2) + `"`)
		expect(t, bare(t, h.ingress.Addr, "plain", body), want)
		if want == 204 {
			h.stored(t, "plain", body, "processed")
		}
		expect(t, chunked(t, h.ingress.Addr, "plain", bytes.NewReader(body), mac(body)), want)
	}
	body := bytes.Repeat([]byte("0123456789"), 2_500_000)
	expect(t, bare(t, h.ingress.Addr, "big", body), 204)
	h.stored(t, "big", body, "processed")
}

func hard23(t *testing.T, h hard) {
	for _, body := range []string{`{"a":1,"a":2}`, `[1e2,-0,1.10]`, " \t{ \"a\"\n:\r\n1 } "} {
		expect(t, bare(t, h.ingress.Addr, "plain", []byte(body)), 204)
		h.stored(t, "plain", []byte(body), "processed")
	}
}

func hard24(t *testing.T, h hard) {
	failed := func(id, response string) []byte {
		return bytes.Replace(task(id, response), []byte("COMPLETED"), []byte("FAILED"), 1)
	}
	h.answered(t, "none", task("none", ""), "response is null")
	h.answered(t, "object", failed("object", `,"response":{"error":{"code":"X"}}`), "status = 'FAILED' and response->'error'->>'code' = 'X'")
	h.answered(t, "string", failed("string", `,"response":"it broke"`), `response = '"it broke"'`)
	h.answered(t, "null", failed("null", `,"response":null`), "response = 'null'")
}

func hard25(t *testing.T, h hard) {
	for n, c := range []struct{ key, want string }{
		{"null", "task:key-0"}, {"", "task:key-1"}, {`"job-r1"`, "job"}, {`"job-r10"`, "job"}, {`"job-rx"`, "job-rx"}, {`"-r1"`, "-r1"}, {`""`, "task:key-6"},
	} {
		id := fmt.Sprintf("key-%d", n)
		body := string(task(id, ""))
		if c.key == "" {
			body = strings.Replace(body, `,"idempotencyKey":null`, "", 1)
		} else {
			body = strings.Replace(body, `"idempotencyKey":null`, `"idempotencyKey":`+c.key, 1)
		}
		h.answered(t, id, []byte(body), "job_key = $2", c.want)
	}
}

func hard26(t *testing.T, h hard) {
	for n, c := range []struct{ createdAt, want string }{
		{"2026-01-02T05:04:05+02:00", "2026-01-02 03:04:05+00"}, {"2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05.123456+00"},
		{"2026-01-02T03:04Z", "2026-01-02 03:04:00+00"},
	} {
		id := fmt.Sprintf("date-%d", n)
		body := bytes.Replace(task(id, ""), []byte("2026-01-02T03:04:05Z"), []byte(c.createdAt), 1)
		h.answered(t, id, body, "date_trunc('microseconds', created_at) - $2::timestamptz between '-1 us' and '1 us'", c.want)
	}
	body := bytes.Replace(task("no-date", ""), []byte("2026-01-02T03:04:05Z"), []byte("last Tuesday"), 1)
	expect(t, harness.Post(t, h.ingress.Addr, "/hooks/answers", body, harness.Secret), 204)
	h.stored(t, "answers", body, "quarantined")
	if n := h.Int("select count(*) from inbox where event_key = 'no-date' and last_error like '%createdAt%last Tuesday%'"); n != 1 {
		t.Error("the row does not say why it is in quarantine")
	}
}

func hard27(t *testing.T, h hard) {
	for path, want := range map[string]int{"/hooks/plain/": 204, "/hooks/plain": 204, "//hooks/plain": 404, "/hooks//plain": 404, "/hooks/../hooks/plain": 404, "/": 404, "/hooks/": 404} {
		body := []byte(`{"twentyseven":"` + path + `"}`)
		conn := dial(t, h.ingress.Addr) // a client that leaves the path alone
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", path, mac(body), len(body), body)
		if got := answerOf(t, conn); got != want {
			t.Errorf("%s: answered %d, want %d", path, got, want)
		}
	}
}

func hard28(t *testing.T, h hard) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for path, want := range map[string]int{"/hooks/plain": 405, "/hooks/nobody": 404} {
			request, err := http.NewRequest(method, "http://"+h.ingress.Addr+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != want || len(text) > 0 {
				t.Errorf("%s %s: answered %d %q, want %d and no body", method, path, response.StatusCode, text, want)
			}
		}
	}
	expect(t, bare(t, h.ingress.Addr, "nobody", []byte("{}")), 404)
}

func hard29(t *testing.T, h hard) {
	for range 500 {
		dial(t, h.ingress.Addr)
	}
	slow := dial(t, h.ingress.Addr)
	go func() {
		for _, b := range []byte("POST /hooks/plain HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 100)) {
			if _, err := slow.Write([]byte{b}); err != nil {
				return // cut off, as it should be
			}
			<-time.After(time.Second)
		}
	}()
	for n := range 20 {
		expect(t, bare(t, h.ingress.Addr, "plain", fmt.Appendf(nil, `{"twentynine":%d}`, n)), 204)
	}
	// The slow one is ended by the ingress: with an answer or without.
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("the slow client was not cut off: %v", err)
	}
}

func hard30(t *testing.T, h hard) {
	body := []byte(`{"thirty":30}`)
	expect(t, bare(t, h.ingress.Addr, "plain", body, "User-Agent", "caf\xe9 \x80\xff", "Traceparent", "00-\xff"), 204)
	h.stored(t, "plain", body, "processed")
	conn := dial(t, h.ingress.Addr)
	fmt.Fprintf(conn, "POST /hooks/plain HTTP/1.1\r\nHost: x\r\nX-Filler: %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 80<<10))
	expect(t, answerOf(t, conn), http.StatusRequestHeaderFieldsTooLarge)
	expect(t, bare(t, h.ingress.Addr, "plain", []byte(`{"thirty":64}`), "X-Filler", strings.Repeat("y", 60<<10)), 204)
}

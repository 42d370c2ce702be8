package test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/test/harness"
)

// The inputs that every receiver must get right, by their numbers, against real
// ingresses and processors. The pure side of some stands beside the packages
// (signature, source, answers).

const hardSources = `sources:
  answers:
    preset: answerline
    secrets: [{env: ANSWERLINE_SECRET}]
  plain:
    preset: custom
    scheme: {header: X-Signature, form: bare, signed: "{body}", algorithm: hmac-sha256, encoding: hex}
    secrets: [{env: ANSWERLINE_SECRET}]
    key: body_hash
  keyed:
    preset: custom
    scheme: {header: X-Signature, form: bare, signed: "{body}", algorithm: hmac-sha256, encoding: hex}
    secrets: [{env: ANSWERLINE_SECRET}]
    key: [id]
  decoded:
    preset: custom
    scheme: {header: X-Signature, form: bare, signed: "{body}", algorithm: hmac-sha256, encoding: hex}
    secrets: [{env: ANSWERLINE_SECRET}]
    key: [id]
    gzip: decoded
  wire:
    preset: answerline
    secrets: [{env: ANSWERLINE_SECRET}]
    gzip: wire
  big:
    preset: custom
    scheme: {header: X-Signature, form: bare, signed: "{body}", algorithm: hmac-sha256, encoding: hex}
    secrets: [{env: ANSWERLINE_SECRET}]
    key: body_hash
    max_body: 25MB
`

func mac(body []byte) string {
	m := hmac.New(sha256.New, []byte(harness.Secret))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// bare posts a body under its bare signature to a source.
func bare(t *testing.T, addr, source string, body []byte, headers ...string) int {
	t.Helper()
	all := map[string]string{"X-Signature": mac(body)}
	for i := 0; i < len(headers); i += 2 {
		all[headers[i]] = headers[i+1]
	}
	status, err := harness.Send(addr, "/hooks/"+source, body, all)
	if err != nil {
		t.Fatalf("POST /hooks/%s: %v", source, err)
	}
	return status
}

func expect(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("answered %d, want %d", got, want)
	}
}

// hard is the system that most hard inputs are sent to.
type hard struct {
	*harness.System
	ingress *harness.Service
}

// stored checks that exactly one row of a source has exactly these bytes.
func (h hard) stored(t *testing.T, source string, body []byte, state string) {
	t.Helper()
	n := h.Int("select count(*) from inbox i join inbox_payload p on p.inbox_id = i.id where i.source = $1 and p.body = $2", source, body)
	if n != 1 {
		t.Errorf("%d rows of %s have the bytes that were sent, want 1", n, source)
	}
	h.AwaitInt(10*time.Second, 1, "select count(*) from inbox i join inbox_payload p on p.inbox_id = i.id where i.source = $1 and p.body = $2 and i.state = $3", source, body, state)
}

func (h hard) rows() int { return h.Int("select count(*) from inbox") }

func TestHardInputs(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.Configure(hardSources)
	h := hard{System: s, ingress: s.StartService("ingress")}
	s.StartService("processor", "CATCHWATER_SCAN_INTERVAL=50ms")
	for _, c := range []struct {
		name string
		run  func(*testing.T, hard)
	}{
		{"01 verified over the bytes read", hard01},
		{"02 never transcoded", hard02},
		{"03 line end is part of the body", hard03},
		{"04 form body for a JSON key", hard04},
		{"05 gzip", hard05},
		{"06 chunked", hard06},
		{"07 body cut short", hard07},
		{"08 empty body", hard08},
		{"09 any good signature", hard09},
		{"10 odd signatures", hard10},
		{"13 timestamps", hard13},
		{"14 replay", hard14},
		{"17 same key, other body", hard17},
		{"19 sender gone", hard19},
		{"20 U+0000", hard20},
		{"21 invalid UTF-8", hard21},
		{"22 sizes", hard22},
		{"23 raw bytes", hard23},
		{"24 response of any shape", hard24},
		{"25 job keys", hard25},
		{"26 createdAt", hard26},
		{"27 no redirects", hard27},
		{"28 methods and sources", hard28},
		{"29 slow clients", hard29},
		{"30 odd headers", hard30},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, h) })
	}
}

func hard01(t *testing.T, h hard) {
	body := []byte(`{"b": 1, "a": 2.0}`)
	expect(t, bare(t, h.ingress.Addr, "plain", body), 204)
	h.stored(t, "plain", body, "processed")
}

func hard02(t *testing.T, h hard) {
	for _, body := range []string{`{"x":"😀"}`, `{"x":"മലയാളം"}`, `{"x":"\u00e9"}`} {
		expect(t, bare(t, h.ingress.Addr, "plain", []byte(body)), 204)
		h.stored(t, "plain", []byte(body), "processed")
	}
}

func hard03(t *testing.T, h hard) {
	body := []byte("{\"line\":3}\r\n")
	expect(t, bare(t, h.ingress.Addr, "plain", body), 204)
	h.stored(t, "plain", body, "processed")
	expect(t, bare(t, h.ingress.Addr, "plain", []byte(`{"line":3}`), "X-Signature", mac(body)), 400)
}

func hard04(t *testing.T, h hard) {
	body := []byte("id=7&payload=%7B%22a%22%3A1%7D")
	expect(t, bare(t, h.ingress.Addr, "keyed", body, "Content-Type", "application/x-www-form-urlencoded"), 204)
	h.stored(t, "keyed", body, "quarantined")
	if n := h.Int("select count(*) from inbox where source = 'keyed' and last_error like 'the body is not JSON%' and event_key like 'sha256:%'"); n != 1 {
		t.Errorf("%d rows say why", n)
	}
}

func zip(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hard05(t *testing.T, h hard) {
	plain := []byte(`{"id":"zipped"}`)
	expect(t, bare(t, h.ingress.Addr, "decoded", zip(t, plain), "X-Signature", mac(plain), "Content-Encoding", "gzip"), 204)
	h.stored(t, "decoded", plain, "processed")

	result := zip(t, harness.Task("zipped", "zipped-job", "COMPLETED", "2026-01-02T03:04:05Z"))
	status, err := harness.Send(h.ingress.Addr, "/hooks/wire", result, map[string]string{
		"Content-Encoding": "gzip", "Webhook-Signature": delivery.Sign([]string{harness.Secret}, time.Now(), result),
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, status, 204)
	h.stored(t, "wire", result, "processed")
	h.AwaitInt(5*time.Second, 1, "select count(*) from answers where source = 'wire' and task_id = 'zipped' and job_key = 'zipped-job'")

	bomb := zip(t, make([]byte, 200<<20))
	before := residentMB(t, h.ingress.Pid())
	expect(t, bare(t, h.ingress.Addr, "decoded", bomb, "Content-Encoding", "gzip"), 413)
	if after := residentMB(t, h.ingress.Pid()); after > before+30 {
		t.Errorf("the bomb took the ingress from %d to %d MB", before, after)
	}
	expect(t, bare(t, h.ingress.Addr, "decoded", plain, "Content-Encoding", "br"), 415)
	expect(t, bare(t, h.ingress.Addr, "plain", zip(t, plain), "Content-Encoding", "gzip"), 415)
	expect(t, bare(t, h.ingress.Addr, "decoded", []byte("no gzip"), "Content-Encoding", "gzip"), 400)
}

// residentMB is a process's resident memory.
func residentMB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb >> 10
		}
	}
	t.Fatal("the kernel does not tell the resident memory")
	return 0
}

// chunked posts without a Content-Length.
func chunked(t *testing.T, addr, source string, body io.Reader, signature string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+addr+"/hooks/"+source, struct{ io.Reader }{body})
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Signature", signature)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func hard06(t *testing.T, h hard) {
	body := []byte(`{"chunked":true}`)
	expect(t, chunked(t, h.ingress.Addr, "plain", bytes.NewReader(body), mac(body)), 204)
	h.stored(t, "plain", body, "processed")
	before := residentMB(t, h.ingress.Pid())
	// A sender without end: it is answered while it is still sending.
	conn := dial(t, h.ingress.Addr)
	fmt.Fprintf(conn, "POST /hooks/plain HTTP/1.1\r\nHost: x\r\nX-Signature: 00\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
	go func() {
		for {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	expect(t, answerOf(t, conn), 413)
	if after := residentMB(t, h.ingress.Pid()); after > before+20 {
		t.Errorf("the stream took the ingress from %d to %d MB", before, after)
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answerOf reads an answer's status.
func answerOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("there was no answer: %v", err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func hard07(t *testing.T, h hard) {
	before := h.rows()
	conn := dial(t, h.ingress.Addr)
	fmt.Fprintf(conn, "POST /hooks/plain HTTP/1.1\r\nHost: x\r\nX-Signature: %s\r\nContent-Length: 10\r\n\r\n{}", mac([]byte("{}")))
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expect(t, answerOf(t, conn), 400)
	if after := h.rows(); after != before {
		t.Error("a body that was cut short made a row")
	}
}

func hard08(t *testing.T, h hard) {
	expect(t, bare(t, h.ingress.Addr, "keyed", nil), 204)
	h.stored(t, "keyed", []byte{}, "quarantined")
}

func hard09(t *testing.T, h hard) {
	for n, headers := range []func(good string) []string{
		func(good string) []string {
			return []string{strings.Replace(good, "v1=", "v1="+strings.Repeat("0", 64)+",v1=", 1)}
		},
		func(good string) []string { return []string{good + ",v9=whatever"} },
		func(good string) []string { return []string{"t=1,v1=00", good} },
		func(good string) []string { return []string{good, "v1=00"} },
	} {
		body := harness.Task(fmt.Sprintf("nine-%d", n), "nine", "COMPLETED", "2026-01-02T03:04:05Z")
		request, err := http.NewRequest(http.MethodPost, "http://"+h.ingress.Addr+"/hooks/answers", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header["Webhook-Signature"] = headers(delivery.Sign([]string{harness.Secret}, time.Now(), body))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		expect(t, response.StatusCode, 204)
	}
}

func hard10(t *testing.T, h hard) {
	body := []byte(`{"ten":10}`)
	good := mac(body)
	for signature, want := range map[string]int{
		"": 400, good[:63]: 400, good + "0": 400, good + "00": 400, "zz" + good[2:]: 400, strings.Repeat("0", 64): 400,
		strings.ToUpper(good): 204, "  " + good + "  ": 204, good: 204, "\xff\xfe": 400, strings.Repeat("a", 30_000): 400,
	} {
		if got := bare(t, h.ingress.Addr, "plain", body, "X-Signature", signature); got != want {
			t.Errorf("signature %.70q: answered %d, want %d", signature, got, want)
		}
	}
	h.stored(t, "plain", body, "processed")
}

func hard13(t *testing.T, h hard) {
	body := harness.Task("thirteen", "thirteen", "COMPLETED", "2026-01-02T03:04:05Z")
	at := func(offset time.Duration) string {
		return delivery.Sign([]string{harness.Secret}, time.Now().Add(offset), body)
	}
	stamped := func(stamp string) string { // signed as it stands
		m := hmac.New(sha256.New, []byte(harness.Secret))
		m.Write([]byte(stamp + "."))
		m.Write(body)
		return "t=" + stamp + ",v1=" + hex.EncodeToString(m.Sum(nil))
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, c := range []struct {
		header, reason string
	}{
		{at(-302 * time.Second), "expired"},
		{at(302 * time.Second), "ahead"},
		{stamped("NaN"), "malformed"}, {stamped(""), "malformed"}, {stamped("1e9"), "malformed"}, {stamped("-1"), "malformed"},
		{stamped("12345678901234567890"), "malformed"}, {"t=" + now + "," + stamped(now), "malformed"},
		{at(-298 * time.Second), ""}, {at(298 * time.Second), ""},
	} {
		sample := fmt.Sprintf(`catchwater_ingress_deliveries_total{outcome="rejected_%s",source="answers"}`, c.reason)
		before := h.ingress.Metric(sample)
		want := 400
		if c.reason == "" {
			want = 204
		}
		status, err := harness.Send(h.ingress.Addr, "/hooks/answers", body, map[string]string{"Webhook-Signature": c.header})
		if err != nil {
			t.Fatal(err)
		}
		if status != want {
			t.Errorf("%.50s (%s): answered %d, want %d", c.header, c.reason, status, want)
		}
		if c.reason != "" && h.ingress.Metric(sample) != before+1 {
			t.Errorf("%.50s: not counted as %s", c.header, c.reason)
		}
	}
}

func hard14(t *testing.T, h hard) {
	body := harness.Task("fourteen", "fourteen", "COMPLETED", "2026-01-02T03:04:05Z")
	captured := delivery.Sign([]string{harness.Secret}, time.Now(), body)
	for _, id := range []string{"wh_1", "wh_1", "wh_other"} {
		status, err := harness.Send(h.ingress.Addr, "/hooks/answers", body, map[string]string{"Webhook-Signature": captured, "Webhook-Id": id})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, status, 204)
	}
	h.stored(t, "answers", body, "processed")
}

func hard17(t *testing.T, h hard) {
	first, second := []byte(`{"id":"seventeen","v":1}`), []byte(`{"id":"seventeen","v":2}`)
	expect(t, bare(t, h.ingress.Addr, "keyed", first), 204)
	expect(t, bare(t, h.ingress.Addr, "keyed", second), 204)
	h.stored(t, "keyed", first, "processed")
	if got := h.ingress.Metric(`catchwater_ingress_deliveries_total{outcome="conflict",source="keyed"}`); got != 1 {
		t.Errorf("%v conflicts were counted, want 1", got)
	}
	if log := h.ingress.Log(); !strings.Contains(log, `"outcome":"conflict"`) {
		t.Error("the conflict is not in the log")
	}
}

func hard19(t *testing.T, h hard) {
	var others sync.WaitGroup
	before := h.rows()
	for n := range 40 {
		others.Go(func() { expect(t, bare(t, h.ingress.Addr, "keyed", fmt.Appendf(nil, `{"id":"stays-%d"}`, n)), 204) })
		others.Go(func() {
			conn, err := net.Dial("tcp", h.ingress.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			body := fmt.Sprintf(`{"id":"leaves-%d"}`, n)
			fmt.Fprintf(conn, "POST /hooks/keyed HTTP/1.1\r\nHost: x\r\nX-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", mac([]byte(body)), len(body), body)
			_ = conn.Close()
		})
	}
	others.Wait()
	if n := h.Int("select count(*) from inbox where event_key like 'stays-%'"); n != 40 {
		t.Errorf("%d of 40 rows of senders that stayed are there", n)
	}
	if n := h.rows() - before; n < 40 || n > 80 {
		t.Errorf("%d new rows", n)
	}
}

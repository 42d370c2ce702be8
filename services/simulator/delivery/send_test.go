package delivery_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// TestSignKnownValue compares with what openssl makes of the same bytes:
// printf '1700000000.{"b": 1}' | openssl dgst -sha256 -hmac KEY.
func TestSignKnownValue(t *testing.T) {
	t.Parallel()
	got := delivery.Sign([]string{"whsec_0123456789abcdef", "another-secret-of-some-length"}, time.Unix(1700000000, 999), []byte(`{"b": 1}`))
	const want = "t=1700000000,v1=10aeb12f670e6553fc5b6787e8a9140b1b766bc2ab65a6d0e0fa8a342c582032,v1=fb7ba6ff060d77814aefefdfbbd868342dda2123b810f93a4da6b507639a916b"
	if got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

// engine returns one that is not running: it sends what it is told to.
func engine(change func(*delivery.Config)) *delivery.Engine {
	cfg := delivery.Config{Contract: contract(), Secrets: []string{secret}, TimeScale: 1, Senders: 2, PrivateTargets: true, RedeliverLimit: 1, MaxLog: 10}
	change(&cfg)
	return delivery.NewEngine(cfg)
}

func TestSendExactBytesAndHeaders(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not now")
	}))
	defer receiver.Close()
	e := engine(func(c *delivery.Config) { c.URL = receiver.URL })
	text := "text/plain"
	sent := "{\"x\":\"\\u00e9 \xff\"}\r\n"
	answer := e.Send(t.Context(), delivery.Raw{
		ID: "wh_1", Body: []byte(sent), Headers: map[string]*string{"Content-Type": &text, "Webhook-Id": nil},
		Secrets: []string{"s1", "s2"}, SignedAt: time.Unix(1700000000, 0),
	})
	if string(body) != sent {
		t.Errorf("received %q, sent %q", body, sent)
	}
	if want := delivery.Sign([]string{"s1", "s2"}, time.Unix(1700000000, 0), []byte(sent)); got.Header.Get("Webhook-Signature") != want {
		t.Errorf("signed %q, want %q", got.Header.Get("Webhook-Signature"), want)
	}
	if _, there := got.Header["Webhook-Id"]; there || got.Header.Get("Content-Type") != text {
		t.Errorf("the headers are %v", got.Header)
	}
	if answer.Code != 503 || answer.Body != "not now" || answer.Header.Get("Retry-After") != "7" || answer.Err == "" {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestSampleIsMarkedAndSigned(t *testing.T) {
	t.Parallel()
	var body, header string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body, header = string(data), r.Header.Get("Webhook-Signature")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	e := engine(func(c *delivery.Config) { c.URL = receiver.URL })
	if answer := e.Sample(t.Context()); answer.Code != 204 {
		t.Errorf("the answer is %+v", answer)
	}
	if !strings.HasPrefix(body, `{"test":true,`) || !strings.HasPrefix(header, "t=") || !strings.Contains(header, ",v1=") {
		t.Errorf("sent %q, signed %q", body, header)
	}
	if r := e.Report(delivery.Totals); r.Sends != 0 {
		t.Errorf("a test delivery is in the log: %+v", r)
	}
}

func TestTargetsThatAreDeadAtOnce(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was delivered") }))
	defer receiver.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(receiver.URL, "https://"), ":")
	for _, c := range []struct {
		url     string
		private bool
		want    string
	}{
		{"", true, "no webhook is registered"},
		{"ftp://example.com/x", true, "not one of http or https"},
		{"receiver", true, "not one of http or https"},
		{"http://example.com/hooks", false, "not https"},
		{receiver.URL, false, "not a public address"},
		{"https://localhost:" + port, false, "not a public address"},
	} {
		e := engine(func(cfg *delivery.Config) { cfg.URL, cfg.PrivateTargets = c.url, c.private })
		if answer := e.Sample(t.Context()); answer.Code != 0 || !strings.Contains(answer.Err, c.want) {
			t.Errorf("%q: %+v, want %s", c.url, answer, c.want)
		}
	}
}

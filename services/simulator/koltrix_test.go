package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/koltrix"
)

// newMailReceiver returns a receiver of Koltrix's events.
func newMailReceiver(t testing.TB) *receiver {
	t.Helper()
	return newReceiverOf(t, koltrixSecret, signature.Scheme{
		Header: "X-Koltrix-Signature", Form: signature.FormPairs, SignatureKeys: []string{"sha256"},
		Signed: "{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex, KeyForm: signature.Verbatim,
	})
}

// events are those that have come, in order, duplicates included.
func (r *receiver) events(t testing.TB) (list []koltrix.Event) {
	t.Helper()
	for _, body := range r.got("") {
		var e koltrix.Event
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatalf("received %q: %v", body, err)
		}
		list = append(list, e)
	}
	return list
}

// startKoltrix runs the providers, of which Koltrix delivers to a receiver.
func startKoltrix(t testing.TB, change func(*Config)) (*receiver, driver) {
	t.Helper()
	r := newMailReceiver(t)
	return r, start(t, func(c *Config) {
		c.Koltrix.WebhookURL = r.URL
		if change != nil {
			change(c)
		}
	})
}

// koltrixReport waits until nothing is pending.
func (d driver) koltrixReport(query string) (r KoltrixReport) {
	d.t.Helper()
	d.call(http.StatusOK, "GET", "/control/koltrix/report?waitIdle=30s"+query, "", &r)
	return r
}

const aMessage = `{"to":"r@example.com","from":"a@sender.example","subject":"News"}`

func TestAMessageFromItsSendingToItsEvents(t *testing.T) {
	t.Parallel()
	r, d := startKoltrix(t, nil)
	d.call(204, "PUT", "/control/koltrix/chances", `{"bounce":0,"open":1,"reopen":0,"click":1,"unsubscribe":0,"complain":0}`, nil)
	var created, shown koltrix.Message
	d.call(201, "POST", "/v1/messages", aMessage, &created)
	await(t, "fourth event", func() bool { return len(r.events(t)) == 4 })
	var types []string
	events := r.events(t)
	slices.SortStableFunc(events, func(a, b koltrix.Event) int { return int(a.Timestamp - b.Timestamp) })
	for _, e := range events {
		types = append(types, e.Type)
		if e.MessageID != created.ID || e.To != "r@example.com" || e.From != "a@sender.example" || e.Subject != "News" {
			t.Errorf("received %+v", e)
		}
	}
	slices.Sort(types)
	if !slices.Equal(types, []string{koltrix.Clicked, koltrix.Delivered, koltrix.Opened, koltrix.Sent}) {
		t.Errorf("received %v", types)
	}
	d.call(200, "GET", "/v1/messages/"+created.ID, "", &shown)
	if clicked := slices.IndexFunc(events, func(e koltrix.Event) bool { return e.Type == koltrix.Clicked }); shown.Status != "clicked" || shown.Timestamp != events[clicked].Timestamp {
		t.Errorf("shown %+v, delivered %+v", shown, events)
	}
	report := d.koltrixReport("&detail=1")
	if report.Deliveries.Delivered != 4 || report.Deliveries.Attempts != 4 || report.Messages.Events[koltrix.Opened] != 1 || report.API["create"] != 1 {
		t.Errorf("the report says %+v", report)
	}
	if e := report.Deliveries.Deliveries[0]; e.Type != koltrix.Sent || e.MessageID != created.ID || e.State != delivery.Delivered || !strings.HasPrefix(e.Delivery.ID, "wh_") {
		t.Errorf("the log begins with %+v", e)
	}
	if _, _, faulty := r.counts(); faulty != 0 {
		t.Errorf("%d signatures are not right", faulty)
	}
}

// TestOneAttempt: what is not answered 2xx at once is lost, but for asking.
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	r, d := startKoltrix(t, nil)
	r.status.Store(http.StatusServiceUnavailable)
	var made koltrix.Made
	d.call(201, "POST", "/control/koltrix/messages", `{"message_id":"m/1","history":["sent","bounced"]}`, &made)
	report := d.koltrixReport("")
	if report.Deliveries.Dead != 2 || report.Deliveries.Attempts != 2 || report.Deliveries.ByCode["503"] != 2 {
		t.Errorf("refused: %+v", report.Deliveries)
	}
	var shown koltrix.Message
	if d.call(200, "GET", "/v1/messages/m%2F1", "", &shown); shown.Status != "bounced" || shown.Timestamp != made.Events[1].Timestamp {
		t.Errorf("shown %+v", shown)
	}
	r.status.Store(0)
	d.call(202, "POST", "/control/koltrix/deliveries/"+made.Events[1].DeliveryID+"/redeliver", "", nil)
	if report := d.koltrixReport(""); report.Deliveries.Delivered != 1 || report.Deliveries.Dead != 1 {
		t.Errorf("redelivered: %+v", report.Deliveries)
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hanging.Close()
	_, d = startKoltrix(t, func(c *Config) { c.Koltrix.AttemptTimeout = 50 * time.Millisecond })
	d.call(204, "PUT", "/control/koltrix/webhook", `{"url":"`+hanging.URL+`"}`, nil)
	d.call(201, "POST", "/control/koltrix/messages", `{"history":["sent"]}`, nil)
	if report := d.koltrixReport("&detail=1"); report.Deliveries.Dead != 1 || report.Deliveries.Deliveries[0].LastError != "no answer within 50ms" {
		t.Errorf("without an answer in time: %+v", report.Deliveries)
	}
}

// TestShuffledAndTwice: a message's events come out of order and several times on
// demand, and in order one at a time.
func TestShuffledAndTwice(t *testing.T) {
	t.Parallel()
	const history = `["sent","delivered","opened","opened","opened","clicked","complained"]`
	order := func(r *receiver) (types []string) {
		for _, e := range r.events(t) {
			types = append(types, fmt.Sprint(e.Timestamp, e.Type))
		}
		return types
	}
	r, d := startKoltrix(t, func(c *Config) { c.Senders = 1 })
	d.call(201, "POST", "/control/koltrix/messages", `{"history":`+history+`}`, nil)
	d.koltrixReport("")
	if got := order(r); len(got) != 7 || !slices.IsSorted(got) || !strings.HasSuffix(got[6], koltrix.Complained) {
		t.Errorf("without faults they come as %v", got)
	}

	r, d = startKoltrix(t, nil)
	d.call(204, "PUT", "/control/koltrix/faults", `{"delivery":{"disorderMs":300,"duplicate":0.5,"repeat":0.5}}`, nil)
	var b messageBurstView
	d.call(200, "POST", "/control/koltrix/burst", `{"count":20,"to":"r@example.com","history":`+history+`}`, &b)
	report := d.koltrixReport("&ids=1")
	if len(b.MessageIDs) != 20 || report.Deliveries.Delivered != 140 || len(report.Deliveries.MessageIDs[delivery.Delivered]) != 140 || report.Messages.Ended != 20 {
		t.Errorf("%d messages, report %+v", len(b.MessageIDs), report)
	}
	times := make(map[koltrix.Event]int)
	shuffled, twice, of := 0, 0, make(map[string]int64)
	for _, e := range r.events(t) {
		times[e]++
		if e.Timestamp < of[e.MessageID] {
			shuffled++
		}
		of[e.MessageID] = e.Timestamp
	}
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	if len(times) != 140 || shuffled < 20 || twice < 40 {
		t.Errorf("%d events, %d came after a later one, %d more than once", len(times), shuffled, twice)
	}
}

// TestDroppedEventsAreKnownToTheAPI: that is what reconciling is for.
func TestDroppedEventsAreKnownToTheAPI(t *testing.T) {
	t.Parallel()
	r, d := startKoltrix(t, nil)
	d.call(204, "PUT", "/control/koltrix/faults", `{"delivery":{"drop":1},"api":{"tooMany":1,"retryAfterSeconds":3}}`, nil)
	var f koltrixFaults
	if d.call(200, "GET", "/control/koltrix/faults", "", &f); f.Delivery.Drop != 1 || f.API.TooMany != 1 {
		t.Errorf("as they were put: %+v", f)
	}
	d.call(201, "POST", "/control/koltrix/messages", `{"message_id":"m","history":["sent"]}`, nil)
	d.call(202, "POST", "/control/koltrix/messages/m/events", `{"event":"bounced","timestamp":1700000000}`, nil)
	var list []eventDelivery
	d.call(200, "GET", "/control/koltrix/deliveries?messageId=m&state=dropped", "", &list)
	if len(list) != 2 || list[0].Type != koltrix.Bounced || list[0].Timestamp != 1700000000 {
		t.Errorf("the log has %+v", list)
	}
	d.call(429, "GET", "/v1/messages/m", "", nil)
	var shown koltrix.Message
	if d.call(200, "GET", "/v1/messages/m", "", &shown); shown.Status != "bounced" || shown.Timestamp != 1700000000 {
		t.Errorf("shown %+v", shown)
	}
	if got := r.events(t); len(got) != 0 {
		t.Errorf("received %+v", got)
	}
	d.call(204, "PUT", "/control/koltrix/chances", `{"open":0.5}`, nil)
	d.call(204, "POST", "/control/koltrix/reset", "", nil)
	d.call(404, "GET", "/v1/messages/m", "", nil)
	var chances koltrix.Chances
	d.call(200, "GET", "/control/koltrix/chances", "", &chances)
	if d.call(200, "GET", "/control/koltrix/faults", "", &f); f.Delivery.Drop != 0 || chances != koltrix.Usual {
		t.Errorf("after a reset: %+v, %+v", f, chances)
	}
}

// TestProvidersGoTheirOwnWays: faults, pauses and secrets of one are not the
// other's.
func TestProvidersGoTheirOwnWays(t *testing.T) {
	t.Parallel()
	answers := newReceiver(t)
	mail, d := startKoltrix(t, func(c *Config) { c.WebhookURL, c.Koltrix.Rate = answers.URL, 100 })
	d.call(204, "PUT", "/control/faults", `{"delivery":{"drop":1},"api":{"tooMany":1000}}`, nil)
	await(t, "delivery of messages of its own", func() bool { return len(mail.events(t)) >= 20 })
	d.call(201, "POST", "/v1/messages", aMessage, nil)
	d.call(429, "GET", "/v1/async/status", "", nil)
	d.call(204, "PUT", "/control/faults", `{}`, nil)
	d.call(204, "POST", "/control/koltrix/pause", "", nil)
	d.call(200, "POST", "/control/burst", `{"count":5}`, nil)
	if report := d.report(""); report.Deliveries.Delivered != 5 || report.Tasks.Completed != 5 {
		t.Errorf("while Koltrix pauses: %+v", report.Deliveries)
	}
	const next = "koltrix-fedcba9876543210"
	mail.accept(t, next)
	d.call(204, "PUT", "/control/koltrix/secrets", `{"secrets":["`+koltrixSecret+`","`+next+`"]}`, nil)
	before := len(mail.events(t))
	d.call(204, "POST", "/control/koltrix/resume", "", nil)
	await(t, "delivery with both secrets", func() bool { return len(mail.events(t)) > before })
}

func TestRefusedKoltrixRequests(t *testing.T) {
	t.Parallel()
	_, d := startKoltrix(t, nil)
	d.call(201, "POST", "/control/koltrix/messages", `{"message_id":"m","history":[]}`, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/faults", `{"delivery":{"drop":2}}`, 400, "delivery.drop is 2: use 0 to 1"},
		{"PUT", "/faults", `{"api":{"failRatio":1}}`, 400, `unknown field \"failRatio\"`},
		{"PUT", "/chances", `{"open":2}`, 400, "open is 2: use 0 to 1"},
		{"POST", "/burst", `{}`, 400, "count is 0: use 1 to"},
		{"POST", "/burst", `{"count":1,"message_id":"m"}`, 400, "have ids of their own"},
		{"POST", "/burst", `{"count":1,"history":[{"to":"a"}]}`, 400, "name the event"},
		{"GET", "/bursts/burst_9", "", 404, "no such burst"},
		{"POST", "/messages", `{"message_id":"m"}`, 409, "a message with this id exists"},
		{"POST", "/messages", `{"history":[{"name":"sent"}]}`, 400, `unknown field \"name\"`},
		{"POST", "/messages/m/events", `{}`, 400, "name the event"},
		{"POST", "/messages/x/events", `{"event":"sent"}`, 404, "no such message"},
		{"POST", "/test-delivery", "", 404, `"code":"NOT_FOUND"`},
	} {
		var body string
		d.call(c.status, c.method, "/control/koltrix"+c.path, c.body, &body)
		if !strings.Contains(body, c.want) || !strings.HasPrefix(body, `{"error":{"code":"`) {
			t.Errorf("%s %s %s says %s, want %s", c.method, c.path, c.body, body, c.want)
		}
	}
}

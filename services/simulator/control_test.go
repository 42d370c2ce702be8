package simulator

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

func TestBurstIsPacedAndReported(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	began := time.Now()
	var b burstView
	d.call(200, "POST", "/control/burst", `{"count":300,"perSecond":1000,"keyPrefix":"job","jobs":100,"failRatio":0.3,"resultBytes":50}`, &b)
	if took := time.Since(began); took < 299*time.Millisecond || !b.Done || len(b.TaskIDs) != 300 {
		t.Errorf("300 at 1000 a second took %s: done %t, %d tasks", took, b.Done, len(b.TaskIDs))
	}
	report := d.report("&detail=1")
	if !report.Idle || report.Deliveries.Delivered != 300 || report.Deliveries.ByCode["204"] != 300 || len(report.Deliveries.Deliveries) != 300 || report.Deliveries.AnswerMs["p99"] <= 0 {
		t.Errorf("the report's totals are wrong: %d delivered, answers %v in %v", report.Deliveries.Delivered, report.Deliveries.ByCode, report.Deliveries.AnswerMs)
	}
	if report.Tasks.Completed+report.Tasks.Failed != 300 || report.Tasks.Failed < 50 || report.Tasks.Failed > 130 {
		t.Errorf("the tasks ended %+v", report.Tasks)
	}
	delivered := slices.Sorted(slices.Values(report.Deliveries.TaskIDs[delivery.Delivered]))
	if made := slices.Sorted(slices.Values(b.TaskIDs)); !slices.Equal(delivered, made) {
		t.Error("the delivered tasks are not the burst's")
	}
	var keys string
	for _, n := range []int{0, 199, 299} {
		var shown struct {
			Task struct{ IdempotencyKey string }
		}
		d.call(200, "GET", "/v1/async/task/"+b.TaskIDs[n], "", &shown)
		keys += shown.Task.IdempotencyKey + " "
	}
	if keys != "job-0 job-99-r1 job-99-r2 " {
		t.Errorf("the keys are %s", keys)
	}
	if ids, requests, faulty := r.counts(); ids != 300 || requests != 300 || faulty != 0 {
		t.Errorf("received %d ids in %d requests, %d faulty", ids, requests, faulty)
	}
}

func TestABurstThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	var b burstView
	d.call(202, "POST", "/control/burst", `{"count":100,"perSecond":500,"noWait":true}`, &b)
	if report := d.report(""); report.Deliveries.Delivered != 100 {
		t.Errorf("idle before the burst was over: %d delivered", report.Deliveries.Delivered)
	}
	d.call(200, "GET", "/control/bursts/"+b.ID, "", &b)
	if !b.Done || b.Made != 100 || len(b.TaskIDs) != 100 {
		t.Errorf("the burst is done: %t, made %d", b.Done, b.Made)
	}
	d.call(404, "GET", "/control/bursts/burst_9", "", nil)
	d.call(202, "POST", "/control/burst", `{"count":100000,"perSecond":1,"noWait":true}`, nil)
	d.call(504, "GET", "/control/report?waitIdle=20ms", "", nil)
	d.call(204, "POST", "/control/reset", "", nil)
	if report := d.report(""); report.Tasks.Completed != 0 || report.Deliveries.Sends != 0 {
		t.Errorf("after a reset there are %+v", report.Tasks)
	}
}

func TestWaitIdleRunsOut(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	d.call(204, "POST", "/control/pause", "", nil)
	d.call(200, "POST", "/control/burst", `{"count":3}`, nil)
	var report Report
	d.call(504, "GET", "/control/report?waitIdle=50ms", "", &report)
	if report.Idle || report.Deliveries.Pending != 3 || !report.Deliveries.Paused {
		t.Errorf("the report that comes with 504: %+v", report)
	}
	d.call(204, "POST", "/control/resume", "", nil)
	if report := d.report(""); report.Deliveries.Delivered != 3 {
		t.Errorf("after resuming: %d delivered", report.Deliveries.Delivered)
	}
}

func TestTasksByHand(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	var made struct{ ID, Status, DeliveryID string }
	d.call(201, "POST", "/control/tasks", `{"id":"t/1","hold":true,"createdAt":"2026-01-02T03:04:05+05:30","idempotencyKey":"job-r2"}`, &made)
	if made.Status != "QUEUED" || made.DeliveryID != "" {
		t.Errorf("held: %+v", made)
	}
	d.call(409, "POST", "/control/tasks", `{"id":"t/1"}`, nil)
	d.call(400, "POST", "/control/tasks", `{"status":"DONE"}`, nil)
	d.call(200, "POST", "/control/tasks/t%2F1/move", `{"status":"PROCESSING"}`, nil)
	d.call(200, "POST", "/control/tasks/t%2F1/move", `{"status":"QUEUED"}`, nil)
	d.call(409, "POST", "/control/tasks/t%2F1/deliver", "", nil)
	d.call(200, "POST", "/control/tasks/t%2F1/finish", `{"status":"FAILED","response":{"error" : "x\u0000"}}`, &made)
	d.call(409, "POST", "/control/tasks/t%2F1/finish", "", nil)
	d.call(404, "POST", "/control/tasks/t2/finish", "", nil)
	d.report("")
	want := `{"task":{"id":"t/1","taskType":"answer","status":"FAILED","priority":0,"createdAt":"2026-01-02T03:04:05+05:30","idempotencyKey":"job-r2"},` +
		`"credits":{"creditsToCharge":3,"creditsCharged":0},"response":{"error" : "x\u0000"}}`
	if got := r.got(made.DeliveryID); len(got) != 1 || got[0] != want {
		t.Errorf("delivered %q, want %q", got, want)
	}
	var shown string
	if d.call(200, "GET", "/v1/async/task/t%2F1", "", &shown); shown != want {
		t.Errorf("shown %q, want %q", shown, want)
	}
	d.call(202, "POST", "/control/tasks/t%2F1/deliver", "", nil)
	d.report("")
	if ids, requests, _ := r.counts(); ids != 2 || requests != 2 {
		t.Errorf("delivered once more: %d ids in %d requests", ids, requests)
	}
	odd := base64.StdEncoding.EncodeToString([]byte("{\"x\": \"\xff\"}\r\n"))
	d.call(201, "POST", "/control/tasks", `{"noDelivery":true,"id":"odd","body":"`+odd+`"}`, nil)
	if d.call(200, "GET", "/v1/async/task/odd", "", &shown); shown != "{\"x\": \"\xff\"}\r\n" {
		t.Errorf("shown %q", shown)
	}
}

func TestRotationOfSecrets(t *testing.T) {
	t.Parallel()
	const next = "whsec_fedcba9876543210"
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	for _, step := range []struct {
		sender   string
		receiver []string
	}{
		{`["` + testSecret + `"]`, []string{testSecret}},
		{`["` + testSecret + `","` + next + `"]`, []string{testSecret}},
		{`["` + testSecret + `","` + next + `"]`, []string{next}},
		{`["` + next + `"]`, []string{next}},
	} {
		r.accept(t, step.receiver...)
		d.call(204, "PUT", "/control/secrets", `{"secrets":`+step.sender+`}`, nil)
		d.call(200, "POST", "/control/burst", `{"count":1}`, nil)
		d.report("")
	}
	if ids, requests, faulty := r.counts(); ids != 4 || requests != 4 || faulty != 0 {
		t.Errorf("received %d of 4 in %d requests, %d with a wrong signature", ids, requests, faulty)
	}
	d.call(400, "PUT", "/control/secrets", `{"secrets":[]}`, nil)
	d.call(400, "PUT", "/control/secrets", `{"secrets":[""]}`, nil)
}

func TestRedeliverOverHTTP(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(http.StatusInternalServerError)
	d := start(t, func(c *Config) { c.WebhookURL, c.TimeScale, c.RedeliverLimit = r.URL, 1e6, 2; c.Keep = 1e6 * time.Hour })
	var made struct{ DeliveryID string }
	d.call(201, "POST", "/control/tasks", `{}`, &made)
	if report := d.report("&detail=1"); report.Deliveries.Dead != 1 || report.Deliveries.Deliveries[0].Attempts != 10 {
		t.Errorf("%d dead, want 1", report.Deliveries.Dead)
	}
	path := "/control/deliveries/" + made.DeliveryID + "/redeliver"
	r.status.Store(0)
	d.call(202, "POST", path, "", nil)
	if report := d.report(""); report.Deliveries.Delivered != 1 || report.Deliveries.Redelivered != 1 {
		t.Errorf("redelivered: %+v", report.Deliveries)
	}
	d.call(404, "POST", "/control/deliveries/wh_0/redeliver", "", nil)
	d.call(204, "POST", "/control/pause", "", nil)
	d.call(202, "POST", path, "", nil)
	d.call(409, "POST", path, "", nil) // pending
	d.call(204, "POST", "/control/resume", "", nil)
	if ids, requests, _ := r.counts(); ids != 1 || requests < 11 {
		t.Errorf("received %d ids in %d requests", ids, requests)
	}
}

func TestRawAndTestDeliveries(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL = r.URL })
	var answer delivery.FullAnswer
	send := func(body string, want int) {
		t.Helper()
		if d.call(200, "POST", "/control/raw-delivery", body, &answer); answer.Code != want {
			t.Errorf("%s is answered %+v, want %d", body, answer, want)
		}
	}
	send(`{"id":"wh_text","text":"{\"b\": 1}\r\n"}`, 204)
	send(`{"id":"wh_bytes","body":"`+base64.StdEncoding.EncodeToString([]byte("\x00\xff"))+`"}`, 204)
	send(`{"text":"x","secrets":["whsec_of_somebody_else"]}`, 400)
	send(`{"text":"x","headers":{"Webhook-Signature":null}}`, 400)
	send(`{"text":"x","headers":{"Webhook-Signature":"t=1,v1=00"}}`, 400)
	send(fmt.Sprintf(`{"text":"x","signedAt":%d}`, time.Now().Add(-301*time.Second).Unix()), 400)
	send(fmt.Sprintf(`{"text":"x","signedAt":%d}`, time.Now().Add(-295*time.Second).Unix()), 204)
	send(`{"text":"x","url":"http://127.0.0.1:1/"}`, 0)
	if !strings.Contains(answer.Err, "connection refused") {
		t.Errorf("without a receiver: %+v", answer)
	}
	if got := fmt.Sprintf("%q %q", r.got("wh_text"), r.got("wh_bytes")); got != `["{\"b\": 1}\r\n"] ["\x00\xff"]` {
		t.Errorf("received %s", got)
	}
	if d.call(200, "POST", "/control/test-delivery", "", &answer); answer.Code != 204 || !strings.HasPrefix(r.got("wh_test")[0], `{"test":true,`) {
		t.Errorf("the test delivery is answered %+v", answer)
	}
	if report := d.report(""); report.Deliveries.Sends != 0 {
		t.Error("these are in the log")
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := start(t, func(c *Config) { c.WebhookURL, c.FailRatio = r.URL, .25 })
	var f answerlineFaults
	if d.call(200, "GET", "/control/faults", "", &f); f.API.Fail != .25 {
		t.Errorf("at the start: %+v", f)
	}
	d.call(204, "PUT", "/control/faults", `{"delivery":{"drop":0.5,"duplicate":1},"api":{"tooMany":1,"retryAfterSeconds":3}}`, nil)
	if d.call(200, "GET", "/control/faults", "", &f); f.Delivery.Drop != .5 || f.API.TooMany != 1 || f.API.Fail != 0 {
		t.Errorf("as they were put: %+v", f)
	}
	d.call(429, "GET", "/v1/async/status", "", nil)
	d.call(200, "POST", "/control/burst", `{"count":200}`, nil)
	report := d.report("&ids=1")
	if n := report.Deliveries.Dropped; n < 60 || n > 140 || len(report.Deliveries.TaskIDs[delivery.Dropped]) != n || report.Deliveries.Repeated != 200-n {
		t.Errorf("%d dropped, %d repeated", n, report.Deliveries.Repeated)
	}
	d.call(200, "GET", "/v1/async/task/"+report.Deliveries.TaskIDs[delivery.Dropped][0], "", nil) // reconciling finds it
	d.call(204, "POST", "/control/reset", "", nil)
	if d.call(200, "GET", "/control/faults", "", &f); f.API.Fail != .25 || f.Delivery.Drop != 0 {
		t.Errorf("after a reset: %+v", f)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	d := start(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/control/faults", `{"delivery":{"drop":2}}`, 400, "delivery.drop is 2: use 0 to 1"},
		{"PUT", "/control/faults", `{"drop":1}`, 400, `unknown field \"drop\"`},
		{"PUT", "/control/faults", `{} {}`, 400, "more after its end"},
		{"POST", "/control/burst", `{}`, 400, "count is 0: use 1 to"},
		{"POST", "/control/burst", `{"count":1,"perSecond":-1}`, 400, "perSecond"},
		{"POST", "/control/burst", `{"count":1,"jobs":2}`, 400, "keyPrefix"},
		{"POST", "/control/burst", `{"count":1,"failRatio":7}`, 400, "failRatio"},
		{"GET", "/control/report?waitIdle=soon", "", 400, "is not a duration such as 30s"},
		{"GET", "/control/deliveries?state=lost", "", 400, "use pending, delivered, dead or dropped"},
		{"GET", "/control/deliveries?limit=0", "", 400, "use 1 or more"},
		{"GET", "/control/nothing", "", 404, `"code":"NOT_FOUND"`},
		{"DELETE", "/control/burst", "", 405, `"code":"METHOD_NOT_ALLOWED"`},
	} {
		var body string
		d.call(c.status, c.method, c.path, c.body, &body)
		if !strings.Contains(body, c.want) || !strings.HasPrefix(body, `{"error":{"code":"`) {
			t.Errorf("%s %s %s says %s, want %s", c.method, c.path, c.body, body, c.want)
		}
	}
}

func TestWithoutAWebhookDeliveriesAreDeadAtOnce(t *testing.T) {
	t.Parallel()
	d := start(t, nil)
	d.call(200, "POST", "/control/burst", `{"count":1}`, nil)
	report := d.report("&detail=1")
	if report.Deliveries.Dead != 1 || report.Deliveries.Sends != 0 || report.Deliveries.Deliveries[0].LastError != "no webhook is registered" {
		t.Errorf("the delivery ended like this: %+v", report.Deliveries.Deliveries)
	}
	r := newReceiver(t)
	d.call(204, "PUT", "/control/webhook", `{"url":"`+r.URL+`"}`, nil)
	d.call(202, "POST", "/control/deliveries/"+report.Deliveries.Deliveries[0].ID+"/redeliver", "", nil)
	if report := d.report(""); report.Deliveries.Delivered != 1 {
		t.Errorf("with a webhook registered: %+v", report.Deliveries)
	}
}

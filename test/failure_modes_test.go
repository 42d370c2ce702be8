package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/test/harness"
)

// The eight failure modes that the Answerline reference says to test, each with
// real processes and nothing inside them that knows of tests. The simulator's
// waits are scaled, so that its 43 minutes of retries pass in seconds.

const answersCount = "select count(*) from answers"

func TestFailureMode1_KilledBetweenInsertAndResponse(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	proxy := harness.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", s.Postgres.Port()))
	s.Through("ingress", proxy.Addr)
	ingress := s.StartService("ingress", "CATCHWATER_ANSWER_TIMEOUT=10s")
	simulator, _ := s.Simulator(ingress.Addr, "SIMULATOR_TIME_SCALE=20")
	// The first delivery leaves a connection with the statement prepared, so that
	// nothing but the reply to the insert is held back below.
	simulator.Burst(1, 0)
	simulator.Report(10 * time.Second)

	proxy.Hold()
	id := simulator.Burst(1, 0)[0]
	s.AwaitInt(10*time.Second, 1, "select count(*) from inbox where event_key = $1", id)
	if sends := simulator.Report(0).Deliveries.Deliveries[1].Sends; sends != 0 {
		t.Fatalf("the sender had its answer before the kill, after %d sends", sends)
	}
	ingress.Kill()
	proxy.Release()
	s.StartService("processor")
	ingress.Start()
	ingress.AwaitReady()

	report := simulator.Report(30 * time.Second)
	if again := report.Deliveries.Deliveries[1]; again.State != delivery.Delivered || again.Attempts < 2 {
		t.Errorf("the delivery was not retried until it was acknowledged: %+v", again)
	}
	s.AwaitInt(10*time.Second, 2, "select count(*) from inbox where state = 'processed' and attempts = 1")
	if n := s.Int("select count(*) from answers where task_id = $1", id); n != 1 {
		t.Errorf("%d answers, want 1", n)
	}
}

func TestFailureMode2_SameBodyTwiceConcurrently(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	body := harness.Task("t1", "job", "COMPLETED", "2026-01-02T03:04:05Z")
	var posts sync.WaitGroup
	for range 2 {
		posts.Go(func() {
			if status := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret); status != http.StatusNoContent {
				t.Errorf("answered %d", status)
			}
		})
	}
	posts.Wait()
	s.AwaitInt(10*time.Second, 1, answersCount)
	if n := s.Int("select count(*) from inbox"); n != 1 {
		t.Errorf("%d inbox rows, want 1", n)
	}
}

func TestFailureMode3_WorkerRaisesOnOneRow(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.Exec(`create function refuse() returns trigger language plpgsql as $$
		begin if new.task_id = 'poison' then raise exception 'this row makes the worker raise'; end if; return new; end $$`)
	s.Exec("create trigger refuse before insert on answers for each row execute function refuse()")
	ingress := s.StartService("ingress")
	for n := range 50 {
		id := fmt.Sprintf("t%d", n)
		if n == 25 {
			id = "poison"
		}
		body := harness.Task(id, id, "COMPLETED", "2026-01-02T03:04:05Z")
		if status := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret); status != http.StatusNoContent {
			t.Fatalf("answered %d", status)
		}
	}
	s.StartService("processor", "CATCHWATER_MAX_ATTEMPTS=3", "CATCHWATER_RETRY_BASE=100ms", "CATCHWATER_RETRY_MAX=200ms", "CATCHWATER_SCAN_INTERVAL=50ms")
	s.AwaitInt(10*time.Second, 49, answersCount)
	s.AwaitInt(10*time.Second, 1, "select count(*) from inbox where state = 'quarantined' and event_key = 'poison' and attempts = 3 and last_error like '%makes the worker raise%'")
	if n := s.Int("select count(*) from inbox where state = 'processed'"); n != 49 {
		t.Errorf("%d rows processed, want 49", n)
	}
	if status := harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task("poison", "p", "COMPLETED", "2026-01-02T03:04:05Z"), harness.Secret); status != http.StatusNoContent {
		t.Errorf("the handler answers %d while a row is in quarantine", status)
	}
	s.Exec("drop trigger refuse on answers")
	s.Exec("update inbox set state = 'pending', attempts = 0, next_attempt_at = now(), last_error = null where event_key = 'poison'")
	s.AwaitInt(10*time.Second, 50, answersCount)
}

func TestFailureMode4_DatabaseStoppedForAMinute(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	processor := s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr, "SIMULATOR_TIME_SCALE=15")
	simulator.Burst(100, 0)
	s.AwaitInt(10*time.Second, 100, answersCount)

	s.StopPostgres()
	began := time.Now()
	body := harness.Task("direct", "direct", "COMPLETED", "2026-01-02T03:04:05Z")
	status := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret)
	if status != http.StatusServiceUnavailable {
		t.Errorf("without its database the handler answers %d, want 503", status)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the 503 took %s, most of the sender's patience", took)
	}
	simulator.Burst(100, 0)
	// A minute at the simulator's scale of 15.
	outage := time.NewTimer(4 * time.Second)
	harness.Await(t, 10*time.Second, "attempts to fail", func() error {
		if n := simulator.Report(0).Deliveries.ByCode["503"]; n < 100 {
			return fmt.Errorf("%d answers of 503", n)
		}
		return nil
	})
	<-outage.C
	s.StartPostgres()

	report := simulator.Report(60 * time.Second)
	if report.Deliveries.Delivered != 200 || report.Deliveries.Dead != 0 {
		t.Errorf("the simulator reports %d delivered, %d dead; want 200, 0", report.Deliveries.Delivered, report.Deliveries.Dead)
	}
	s.AwaitInt(20*time.Second, 200, answersCount)
	for _, service := range []*harness.Service{ingress, processor} {
		select {
		case <-service.Done():
			t.Error("a service ended during the outage: recovery must need no restart")
		default:
		}
	}
}

func TestFailureMode5_TwoResultsForOneJobInReverseOrder(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	post := func(id, key, status, createdAt string) {
		t.Helper()
		before := s.Int(answersCount)
		if status := harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task(id, key, status, createdAt), harness.Secret); status != http.StatusNoContent {
			t.Fatalf("answered %d", status)
		}
		s.AwaitInt(10*time.Second, before+1, answersCount) // one after the other
	}
	post("newer", "job-r1", "COMPLETED", "2026-01-02T12:00:00Z")
	post("older", "job", "COMPLETED", "2026-01-02T10:00:00Z")
	post("latest-but-failed", "job-r2", "FAILED", "2026-01-02T14:00:00Z")
	post("only-failed", "other", "FAILED", "2026-01-02T14:00:00Z")
	var winners []string
	rows, err := s.DB.Query(t.Context(), "select job_key || '=' || task_id from job_results order by 1")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var winner string
		if err := rows.Scan(&winner); err != nil {
			t.Fatal(err)
		}
		winners = append(winners, winner)
	}
	if got := strings.Join(winners, " "); got != "job=newer" {
		t.Errorf("job_results has %q, want job=newer alone", got)
	}
	if n := s.Int("select count(*) from answers where status = 'FAILED' and response is not null"); n != 2 {
		t.Errorf("%d failed results are stored as they are, want 2", n)
	}
}

func TestFailureMode6_DashboardTestDelivery(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	simulator, _ := s.Simulator(ingress.Addr)
	var answer delivery.Answer
	simulator.Call(http.MethodPost, "/control/test-delivery", nil, &answer)
	if answer.Code != http.StatusNoContent {
		t.Errorf("the test delivery is answered %+v", answer)
	}
	if status := harness.Post(t, ingress.Addr, "/hooks/answers", []byte(`{"test":true}`), "whsec_another_secret_"); status != http.StatusBadRequest {
		t.Errorf("a test delivery with a wrong signature is answered %d", status)
	}
	if n := s.Int("select count(*) from inbox"); n != 0 {
		t.Errorf("%d inbox rows, want none", n)
	}
}

func TestFailureMode7_BehindARedirect(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	redirect := httptest.NewServer(http.RedirectHandler("http://"+ingress.Addr+"/hooks/answers", http.StatusPermanentRedirect))
	t.Cleanup(redirect.Close)
	simulator, _ := s.Simulator(strings.TrimPrefix(redirect.URL, "http://"), "SIMULATOR_TIME_SCALE=20")
	simulator.Burst(5, 0)
	harness.Await(t, 10*time.Second, "attempts to fail", func() error {
		if n := simulator.Report(0).Deliveries.ByCode["308"]; n < 5 {
			return fmt.Errorf("%d answers of 308", n)
		}
		return nil
	})
	if n := s.Int("select count(*) from inbox"); n != 0 {
		t.Errorf("%d deliveries followed the redirect", n)
	}
	simulator.Call(http.MethodPut, "/control/webhook", map[string]string{"url": "http://" + ingress.Addr + "/hooks/answers/"}, nil)
	if report := simulator.Report(30 * time.Second); report.Deliveries.Delivered != 5 {
		t.Errorf("with the final URL registered: %+v", report.Deliveries)
	}
	s.AwaitInt(10*time.Second, 5, answersCount)
}

// reconciling is a sources file whose provider is at an address.
func reconciling(simulator string, extra string) string {
	return fmt.Sprintf(`sources:
  answers:
    preset: answerline
    secrets: [{env: ANSWERLINE_SECRET}]
    reconcile: {base_url: "http://%s", token: {env: ANSWERLINE_API_KEY}, after: 200ms, rate: 500, interval: 300ms%s}
`, simulator, extra)
}

func TestFailureMode8_DownLongerThanTheRetryWindow(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	nobody := fmt.Sprintf("127.0.0.1:%d", s.Port())
	// 43 minutes of retries in at most 2.6 seconds.
	simulator, _ := s.Simulator(nobody, "SIMULATOR_TIME_SCALE=1000", "SIMULATOR_KEEP=100000h")
	ids := simulator.Burst(200, 0)
	report := simulator.Report(60 * time.Second)
	if report.Deliveries.Dead != 200 || len(report.Deliveries.Deliveries) != 200 || report.Deliveries.Deliveries[0].Attempts != 10 {
		t.Fatalf("the delivery log shows %d dead", report.Deliveries.Dead)
	}
	s.Configure(reconciling(simulator.Addr, ""))
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=200ms")
	s.Exec("insert into submitted_tasks (task_id) select unnest($1::text[])", ids)
	s.AwaitInt(60*time.Second, 200, answersCount)
	if n := s.Int("select count(*) from inbox where origin = 'reconcile'"); n != 200 {
		t.Errorf("%d rows came by reconciling, want 200", n)
	}
	s.AwaitInt(10*time.Second, 0, "select count(*) from submitted_tasks where settled_at is null")
	// What is redelivered afterwards is recognised.
	ingress := s.StartService("ingress")
	simulator.Call(http.MethodPut, "/control/webhook", map[string]string{"url": "http://" + ingress.Addr + "/hooks/answers"}, nil)
	if status := simulator.Call(http.MethodPost, "/control/deliveries/"+report.Deliveries.Deliveries[7].ID+"/redeliver", nil, nil); status != http.StatusAccepted {
		t.Errorf("the redelivery is answered %d", status)
	}
	if after := simulator.Report(10 * time.Second); after.Deliveries.Delivered != 1 {
		t.Errorf("after the redelivery: %d delivered", after.Deliveries.Delivered)
	}
	if n := s.Int("select count(*) from inbox"); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
}

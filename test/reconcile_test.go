package test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

const recovered = "select count(*) from inbox where origin = 'reconcile' and state = 'processed'"

// reconcilable starts a system whose deliveries never arrive, and registers
// tasks that have ended at the provider.
func reconcilable(t *testing.T, extra string, count int) (*harness.System, harness.Simulator, []string) {
	t.Helper()
	s := harness.New(t)
	simulator, _ := s.Simulator("127.0.0.1:1") // nobody listens there
	s.Configure(reconciling(simulator.Addr, extra))
	var ids []string
	if count > 0 {
		ids = simulator.Burst(count, 0)
		s.Exec("insert into submitted_tasks (task_id) select unnest($1::text[])", ids)
	}
	return s, simulator, ids
}

func faults(simulator harness.Simulator, api string) {
	simulator.T.Helper()
	request, _ := http.NewRequest(http.MethodPut, "http://"+simulator.Addr+"/control/faults", strings.NewReader(`{"api":`+api+`}`))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		simulator.T.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		simulator.T.Fatalf("the faults are answered %s", response.Status)
	}
}

func TestReconcile429StopsTheRunAndHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, "", 50)
	faults(simulator, `{"tooMany":1000000,"retryAfterSeconds":2}`)
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(10*time.Second, 1, "select count(*) from poll_limits where paused_until > now() and pause_reason like '429%'")
	pause := s.Int("select extract(epoch from paused_until - now())::int from poll_limits")
	if pause > 2 {
		t.Errorf("the pause lasts %d s, want what Retry-After says, 2", pause)
	}
	// Polls that were under way when the first 429 came end; after that there
	// are none. Eight workers can have one each.
	refused := simulator.Report(0).API["too_many_requests"]
	if refused > 9 {
		t.Errorf("%d requests were made into a 429", refused)
	}
	faults(simulator, `{}`)
	s.AwaitInt(30*time.Second, 50, recovered)
}

func TestReconcileAbsentAndBrokenAnswers(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, "", 5)
	s.Exec("insert into submitted_tasks (task_id) values ('task_nobody_knows')")
	faults(simulator, `{"serverErrors":3}`)
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(30*time.Second, 5, recovered)
	s.AwaitInt(10*time.Second, 1, "select count(*) from submitted_tasks where task_id = 'task_nobody_knows' and last_poll_result like '404%' and next_poll_at > now() + interval '5 hours'")
	if n := simulator.Report(0).API["server_error"]; n != 3 {
		t.Errorf("%d answers of 500, want 3", n)
	}
}

func TestReconcileOnlyFinalCounts(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, "", 0)
	var task struct {
		ID string `json:"id"`
	}
	simulator.Call(http.MethodPost, "/control/tasks", map[string]any{"hold": true, "id": "held"}, &task)
	s.Exec("insert into submitted_tasks (task_id) values ('held')")
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(20*time.Second, 1, "select count(*) from submitted_tasks where last_poll_result = 'QUEUED' and polls >= 2 and settled_at is null")
	if n := s.Int("select count(*) from inbox"); n != 0 {
		t.Errorf("a task that is not final made %d inbox rows", n)
	}
	simulator.Call(http.MethodPost, "/control/tasks/held/finish", map[string]any{"status": "FAILED", "response": map[string]string{"error": "x"}}, nil)
	s.AwaitInt(20*time.Second, 1, recovered)
	s.AwaitInt(5*time.Second, 1, "select count(*) from answers where status = 'FAILED'")
}

func TestReconcilePastTheHorizon(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, ", horizon: 1s", 0)
	simulator.Call(http.MethodPost, "/control/tasks", map[string]any{"hold": true, "id": "stuck"}, nil)
	s.Exec("insert into submitted_tasks (task_id, idempotency_key, created_at) values ('stuck', 'k1', now() - interval '10 seconds'), (null, 'k2', now() - interval '10 seconds')")
	reconciler := s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(10*time.Second, 2, "select count(*) from submitted_tasks where needs_investigation_at is not null")
	s.AwaitInt(10*time.Second, 1, "select count(*) from submitted_tasks where task_id = 'stuck' and polls = 1 and next_poll_at > now() + interval '5 hours'")
	if got := reconciler.Metric(`catchwater_tasks_past_horizon{source="answers"}`); got != 2 {
		t.Errorf("the metric says %v, want 2", got)
	}
	if !strings.Contains(reconciler.Log(), "needs investigation") {
		t.Error("the log does not say so")
	}
}

func TestReconcileWithoutBrokerAndAcrossALeadersDeath(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, "", 20)
	s.NATS.Kill()
	s.StartService("processor")
	first := s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms", "CATCHWATER_LEASE=1s")
	s.AwaitInt(30*time.Second, 20, recovered)
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms", "CATCHWATER_LEASE=1s")
	first.Kill()
	ids := simulator.Burst(20, 0)
	s.Exec("insert into submitted_tasks (task_id) select unnest($1::text[])", ids)
	s.AwaitInt(30*time.Second, 40, recovered)
}

func TestPollsAreSharedUnderOneRate(t *testing.T) {
	t.Parallel()
	s, simulator, _ := reconcilable(t, "", 60)
	s.Configure(strings.Replace(reconciling(simulator.Addr, ""), "rate: 500", "rate: 20", 1))
	s.StartService("processor")
	reconcilers := []*harness.Service{s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms"), s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")}
	s.AwaitInt(60*time.Second, 60, recovered)
	span := s.Int("select (extract(epoch from max(last_polled_at) - min(last_polled_at)) * 1000)::int from submitted_tasks")
	if span < 2500 { // 60 polls at 20 a second take 2,950 ms
		t.Errorf("60 polls took %d ms: faster than the rate", span)
	}
	for n, r := range reconcilers {
		if got := r.Metric(`catchwater_reconciler_polls_total{result="final",source="answers"}`); got == 0 {
			t.Errorf("reconciler %d made no poll", n)
		}
	}
}

// TestHardInput18_DeliveryAndPollAtTheSameInstant lets both come at once.
func TestHardInput18_DeliveryAndPollAtTheSameInstant(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	simulator, _ := s.Simulator(ingress.Addr)
	s.Configure(reconciling(simulator.Addr, ""))
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=50ms")
	var makers sync.WaitGroup
	for n := range 200 {
		id := fmt.Sprintf("race-%d", n)
		simulator.Call(http.MethodPost, "/control/tasks", map[string]any{"hold": true, "id": id}, nil)
		s.Exec("insert into submitted_tasks (task_id, created_at) values ($1, now() - interval '1 minute')", id)
		makers.Go(func() {
			simulator.Call(http.MethodPost, "/control/tasks/"+id+"/finish", map[string]any{}, nil)
		})
	}
	makers.Wait()
	s.AwaitInt(30*time.Second, 200, answersCount)
	s.AwaitInt(30*time.Second, 0, "select count(*) from submitted_tasks where settled_at is null")
	if n := s.Int("select count(*) from inbox"); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
	t.Logf("%d came by reconciling", s.Int("select count(*) from inbox where origin = 'reconcile'"))
}

// catchwater runs an operator's command on a system.
func catchwater(t *testing.T, s *harness.System, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(harness.Program(t, "catchwater"), args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.DatabaseURL(), "CATCHWATER_CONFIG="+s.ConfigPath(), "ANSWERLINE_API_KEY=sim-key")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestSubmitSafely submits from the command line, through a create whose
// answer never comes, and through a crash between recording and creating.
func TestSubmitSafely(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr, "SIMULATOR_QUEUE_FOR=2s", "SIMULATOR_RUN_FOR=1s")
	s.Configure(reconciling(simulator.Addr, ", timeout: 500ms"))
	submit := func(key, want string) {
		t.Helper()
		out, err := catchwater(t, s, "tasks", "submit", "--key", key, "--data", `{"prompt":"x"}`)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("submit %s: %v, %q; want %q", key, err, out, want)
		}
	}
	submit("plain", "submitted as task")
	submit("plain", "submitted before as task")

	faults(simulator, `{"withholdCreates":1}`)
	submit("withheld", "its delivery will tell the task id")
	if n := s.Int("select count(*) from submitted_tasks where idempotency_key = 'withheld' and task_id is null"); n != 1 {
		t.Error("the submission whose create was not answered is not open")
	}
	// The record alone is what a crash before the create leaves.
	s.Exec("insert into submitted_tasks (source, idempotency_key) values ('answers', 'crashed')")
	submit("crashed", "submitted as task")

	s.AwaitInt(20*time.Second, 3, answersCount)
	s.AwaitInt(5*time.Second, 3, "select count(*) from submitted_tasks s join answers a on a.task_id = s.task_id and a.idempotency_key = s.idempotency_key where settled_at is not null")
	if out, err := catchwater(t, s, "tasks", "status"); err != nil || !strings.Contains(out, "everything is in") {
		t.Errorf("status: %v, %q", err, out)
	}
	if out, err := catchwater(t, s, "tasks", "add", "one", "two", "one"); err != nil || !strings.Contains(out, "registered 2 tasks of 3") {
		t.Errorf("add: %v, %q", err, out)
	}
	if out, err := catchwater(t, s, "tasks", "list"); err != nil || !strings.Contains(out, "two") || strings.Contains(out, "plain") {
		t.Errorf("list: %v, %q", err, out)
	}
	if out, err := catchwater(t, s, "tasks", "status"); err == nil || !strings.Contains(out, "2 submitted tasks have no result") {
		t.Errorf("status with open tasks: %v, %q", err, out)
	}
	submit("to be cancelled", "submitted as task")
	if out, err := catchwater(t, s, "tasks", "cancel-queued"); err != nil {
		t.Errorf("cancel-queued: %v, %q", err, out)
	}
	if n := simulator.Report(0).API["cancel_queued"]; n != 1 {
		t.Errorf("the provider was asked %d times to remove queued tasks", n)
	}
}

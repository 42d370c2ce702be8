package reconciler_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

const (
	result = "select coalesce(last_poll_result, '') from submitted_tasks where task_id = $1"
	open   = "select count(*)::text from submitted_tasks where settled_at is null"
)

func TestAFinalAnswerGoesInAsItsDeliveryWould(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	const completed = "{\"task\": {\"id\":\"t/1\",\"status\":\"COMPLETED\",\"createdAt\":\"2026-01-02T03:04:05Z\"},\n \"response\":{\"n\":1e2,\"s\":\"\\u0000é\"}}\r\n"
	s.provider.answer("t/1", says(http.StatusOK, completed))
	s.provider.answer("t2", task("t2", "FAILED"))
	s.submit("t/1", "t2")
	r := s.start()
	s.await("0", open)
	got := s.text(`select concat_ws(' ', i.event_type, i.subject, i.occurred_at at time zone 'UTC', i.origin, i.state, convert_from(p.body, 'UTF8'))
from inbox i join inbox_payload p on p.inbox_id = i.id where event_key = 't/1'`)
	if want := "COMPLETED t/1 2026-01-02 03:04:05 reconcile pending " + completed; got != want {
		t.Errorf("in the inbox is\n%q, want\n%q", got, want)
	}
	if got := s.text("select event_type from inbox where event_key = 't2'"); got != "FAILED" {
		t.Errorf("the failed task is stored as %q", got)
	}
	// The delivery, should it come after all, is a duplicate to the byte.
	inserted, err := inbox.NewStore(s.db, 0).Insert(t.Context(), []inbox.Delivery{{Source: "answers", EventKey: "t/1", Origin: inbox.FromDelivery, Body: []byte(completed)}})
	if err != nil || inserted[0].Outcome != inbox.Duplicate {
		t.Errorf("the delivery is a %v, %v", inserted, err)
	}
	r.awaitMetric(`catchwater_reconciler_polls_total{result="final",source="answers"} 2`)
	r.awaitMetric(`catchwater_reconciler_recovered_total{source="answers"} 2`)
	r.awaitMetric(`catchwater_reconciler_leader 1`)
	if got := s.text("select string_agg(last_poll_result || polls, ' ' order by task_id) from submitted_tasks"); got != "COMPLETED1 FAILED1" {
		t.Errorf("recorded is %q", got)
	}
}

func TestOnlyAFinalStatusIsFinal(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	s.provider.answer("t1", task("t1", "QUEUED"), task("t1", "PROCESSING"), task("t1", "QUEUED"), task("t1", "RESTING"), task("t1", "COMPLETED"))
	s.submit("t1")
	r := s.start()
	s.await("0", open)
	if n := s.provider.timesAsked("t1"); n != 5 {
		t.Errorf("it was asked for %d times, want 5", n)
	}
	r.awaitMetric(`catchwater_reconciler_polls_total{result="not_final",source="answers"} 4`)
	if n := s.text("select count(*)::text from inbox"); n != "1" {
		t.Errorf("%s rows, want 1", n)
	}
}

func TestWhatCannotBeTheResultIsNotStored(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	cases := []struct{ id, body, want string }{
		{"another", `{"task":{"id":"t2","status":"COMPLETED"}}`, "t2"},
		{"none", `{"status":"COMPLETED"}`, `about task ""`},
		{"test", `{"test":true,"task":{"id":"test","status":"COMPLETED"}}`, "test"},
		{"unclear", `{"task":{"id":"unclear","status":"QUEUED","Status":"COMPLETED"}}`, "not final"},
		{"large", `{"task":{"id":"large","status":"COMPLETED"},"response":"` + strings.Repeat("x", 2048) + `"}`, "max_body"},
	}
	for _, c := range cases {
		s.provider.answer(c.id, says(http.StatusOK, c.body))
		s.submit(c.id)
	}
	s.provider.answer("page", says(http.StatusOK, "<html>"))
	s.submit("page")
	r := s.start()
	for _, c := range cases {
		s.await("true", "select (last_poll_result like '%' || $2 || '%' and next_poll_at > now() + interval '5 hours')::text from submitted_tasks where task_id = $1", c.id, c.want)
	}
	await(t, "the page to be asked for again", func() string {
		if s.provider.timesAsked("page") < 3 {
			return "it was not"
		}
		return ""
	})
	r.awaitMetric(`catchwater_reconciler_polls_total{result="unusable",source="answers"} 5`)
	if n := s.text("select count(*)::text from inbox"); n != "0" {
		t.Errorf("%s rows are in the inbox", n)
	}
	if n := s.text(open); n != "6" {
		t.Errorf("%s tasks are open, want all 6", n)
	}
}

func TestErrorsAndTimeOutsBackOff(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), ", timeout: 1s")
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(within):
		}
	}
	s.provider.answer("t1", says(http.StatusInternalServerError, ""), says(http.StatusBadGateway, "<html>"), hang, task("t1", "COMPLETED"))
	s.submit("t1")
	r := s.start()
	s.await("502", result, "t1")
	s.await("true", "select (last_poll_result like '%no answer within 1s%')::text from submitted_tasks where task_id = 't1'")
	s.await("0", open)
	r.awaitMetric(`catchwater_reconciler_polls_total{result="server_error",source="answers"} 2`)
	r.awaitMetric(`catchwater_reconciler_polls_total{result="no_answer",source="answers"} 1`)
	if got := s.text("select polls::text from submitted_tasks"); got != "4" {
		t.Errorf("%s polls, want 4", got)
	}
}

func TestUnknownTasksAreAskedForRarely(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), ", rare: 3h")
	s.provider.answer("gone", says(http.StatusGone, ""))
	s.submit("unknown", "gone")
	r := s.start()
	const rarely = "select (last_poll_result = $2 and polls = 1 and next_poll_at between now() + interval '170 minutes' and now() + interval '3 hours')::text from submitted_tasks where task_id = $1"
	s.await("true", rarely, "unknown", "404 NOT_FOUND")
	s.await("true", rarely, "gone", "410")
	r.awaitMetric(`catchwater_reconciler_polls_total{result="not_found",source="answers"} 1`)
	r.awaitMetric(`catchwater_reconciler_polls_total{result="refused",source="answers"} 1`)
}

func TestPastTheHorizon(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), ", horizon: 1h, rare: 3h")
	s.provider.answer("stuck", task("stuck", "PROCESSING"))
	s.provider.answer("broken", says(http.StatusInternalServerError, ""))
	s.provider.answer("late", task("late", "COMPLETED"))
	s.exec(`insert into submitted_tasks (task_id, idempotency_key, created_at)
select t, k, now() - interval '2 hours' from (values ('stuck', null), ('broken', null), ('late', null), (null, 'key only')) v (t, k)`)
	s.submit("young")
	r := s.start()
	s.await("broken,key only,late,stuck", "select string_agg(coalesce(task_id, idempotency_key), ',' order by coalesce(task_id, idempotency_key)) from submitted_tasks where needs_investigation_at is not null")
	s.await("true", "select (polls = 1 and next_poll_at > now() + interval '170 minutes')::text from submitted_tasks where task_id = 'stuck'")
	// An error says nothing of the task: it backs off, it does not wait for hours.
	s.await("true", "select (polls = 1 and next_poll_at < now() + interval '6 seconds')::text from submitted_tasks where task_id = 'broken'")
	s.await("true", "select (settled_at is not null)::text from submitted_tasks where task_id = 'late'")
	r.awaitMetric(`catchwater_tasks_past_horizon{source="answers"} 3`)
	r.awaitMetric(`catchwater_tasks_open{source="answers"} 4`)
	r.awaitMetric(`catchwater_tasks_overdue{source="answers"} 3`)
	if n := strings.Count(r.log.String(), "needs investigation"); n != 4 {
		t.Errorf("the log says %d times that a task needs investigation, want once for each of 4", n)
	}
}

package reconciler_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

// newMail makes a system whose source is one of messages.
func newMail(t *testing.T, settings string) *system {
	t.Helper()
	return newSystemOf(t, pgtest.New(t), "mail", "koltrix", settings)
}

// message is the answer about a message, whose status was set at a second.
func message(id, status string, second int) http.HandlerFunc {
	return says(http.StatusOK, koltrix(id, status, second))
}

func koltrix(id, status string, second int) string {
	return fmt.Sprintf(`{"message_id":%q,"status":%q,"timestamp":%d,"to":"a@b.c","from":"x@y.z","subject":"Hi"}`+"\n", id, status, second)
}

// sent registers messages as if two seconds ago, which is overdue.
func (s *system) sent(ids ...string) {
	s.t.Helper()
	s.exec("insert into messages (source, message_id, registered_at) select 'mail', unnest($1::text[]), now() - interval '2 seconds'", ids)
}

// finish is what the processor does of a final status.
func (s *system) finish(id string) {
	s.t.Helper()
	s.exec("update messages set final = true where message_id = $1", id)
}

func TestAMessagesStatusGoesInAsItsDeliveryWould(t *testing.T) {
	t.Parallel()
	s := newMail(t, "")
	s.provider.answer("m/1", message("m/1", "bounced", 1700000000))
	s.sent("m/1")
	r := s.start()
	s.await("bounced1", "select last_poll_result || polls from submitted_tasks where settled_at is not null")
	got := s.text(`select concat_ws(' ', i.event_key, i.event_type, i.subject, i.occurred_at at time zone 'UTC', i.origin, i.state, convert_from(p.body, 'UTF8'))
from inbox i join inbox_payload p on p.inbox_id = i.id`)
	if want := "m/1|message.bounced|1700000000|a@b.c message.bounced m/1 2023-11-14 22:13:20 reconcile pending " + koltrix("m/1", "bounced", 1700000000); got != want {
		t.Errorf("in the inbox is\n%q, want\n%q", got, want)
	}
	// The delivery, should it come after all, says the same in other bytes.
	inserted, err := inbox.NewStore(s.db, 0).Insert(t.Context(), []inbox.Delivery{{
		Source: "mail", EventKey: "m/1|message.bounced|1700000000|a@b.c", Origin: inbox.FromDelivery, Body: []byte(`{"event":"message.bounced"}`),
	}})
	if err != nil || inserted[0].Outcome != inbox.Duplicate {
		t.Errorf("the delivery is a %v, %v", inserted, err)
	}
	r.awaitMetric(`catchwater_reconciler_polls_total{result="final",source="mail"} 1`)
	r.awaitMetric(`catchwater_reconciler_recovered_total{source="mail"} 1`)
	log := r.log.String()
	for _, text := range []string{`"msg":"asked the provider for a message"`, `"message_id":"m/1"`, `"msg":"looked for overdue messages"`} {
		if !strings.Contains(log, text) {
			t.Errorf("the log has no %s", text)
		}
	}
	if strings.Contains(log, "task") {
		t.Error("the log speaks of tasks")
	}
}

// TestAMessageIsAskedForUntilItIsFinal has its status rise, and the delivery of
// the last event come by itself.
func TestAMessageIsAskedForUntilItIsFinal(t *testing.T) {
	t.Parallel()
	s := newMail(t, "")
	s.provider.answer("m1", message("m1", "queued", 1), message("m1", "queued", 2), message("m1", "sent", 3))
	s.sent("m1")
	s.exec("insert into messages (source, message_id, registered_at) values ('mail', 'young', now() + interval '1 hour')") // however slow this machine is
	s.exec("insert into messages (source, message_id, final, registered_at) values ('mail', 'done', true, now() - interval '1 day')")
	r := s.start()
	s.await("true", "select (last_poll_result = 'sent' and polls > 3 and settled_at is null)::text from submitted_tasks where task_id = 'm1'")
	r.awaitMetric(`catchwater_tasks_open{source="mail"} 1`)
	if got := s.text("select string_agg(event_key, ' ') from inbox"); got != "m1|message.sent|3|a@b.c" {
		t.Errorf("in the inbox are %s", got)
	}
	r.awaitMetric(`catchwater_reconciler_recovered_total{source="mail"} 1`)
	s.finish("m1")
	s.await("true", "select (settled_at is not null)::text from submitted_tasks where task_id = 'm1'")
	if n := s.provider.timesAsked("done"); n != 0 {
		t.Errorf("a message with a final status was asked for %d times", n)
	}
	r.awaitMetric(`catchwater_tasks_open{source="mail"} 0`)
}

// TestAMessageThatIsDeletedIsForgotten is of one that no provider knows.
func TestAMessageThatIsDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	s := newMail(t, "")
	s.sent("gone")
	s.start()
	s.await("404 NOT_FOUND", result, "gone")
	s.exec("delete from messages")
	s.await("0", open)
}

func TestErrorsAboutMessagesAreThoseAboutTasks(t *testing.T) {
	t.Parallel()
	s := newMail(t, ", rare: 3h")
	s.provider.answer("broken", says(http.StatusInternalServerError, ""), says(http.StatusOK, "<html>"), message("broken", "delivered", 1))
	s.provider.answer("odd", message("odd", "teleported", 1))
	s.provider.answer("another", message("m9", "bounced", 1))
	s.sent("broken", "unknown", "odd", "another")
	r := s.start()
	const rarely = "select (last_poll_result like $2 and polls = 1 and next_poll_at between now() + interval '170 minutes' and now() + interval '3 hours')::text from submitted_tasks where task_id = $1"
	s.await("true", rarely, "unknown", "404 NOT_FOUND")
	s.await("true", rarely, "odd", "%teleported%")
	s.await("true", rarely, "another", `%about message "m9"%`)
	s.await("delivered3", "select last_poll_result || polls from submitted_tasks where task_id = 'broken' and settled_at is not null")
	r.awaitMetric(`catchwater_reconciler_polls_total{result="server_error",source="mail"} 1`)
	r.awaitMetric(`catchwater_reconciler_polls_total{result="no_answer",source="mail"} 1`)
	r.awaitMetric(`catchwater_reconciler_polls_total{result="unusable",source="mail"} 2`)
	if got := s.text("select string_agg(subject, ' ') from inbox"); got != "broken" {
		t.Errorf("in the inbox are events of %s", got)
	}

	s.provider.setBusy(says(http.StatusTooManyRequests, "", "Retry-After", "600"))
	s.sent("later")
	s.await("true", "select (paused_until > now() + interval '9 minutes' and pause_reason = '429')::text from poll_limits where source = 'mail'")
}

func TestMessagesPastTheHorizon(t *testing.T) {
	t.Parallel()
	s := newMail(t, ", horizon: 1s, rare: 3h")
	s.provider.answer("stuck", message("stuck", "sent", 1))
	s.sent("stuck")
	r := s.start()
	s.await("true", "select (polls = 1 and needs_investigation_at is not null and next_poll_at > now() + interval '170 minutes')::text from submitted_tasks")
	r.awaitMetric(`catchwater_tasks_past_horizon{source="mail"} 1`)
	if log := r.log.String(); !strings.Contains(log, "a registered message has no final status and is past the horizon; it needs investigation") {
		t.Error("the log does not say so")
	}
}

// TestAnAnswerOfSeveralEvents has one of them unknown.
func TestAnAnswerOfSeveralEvents(t *testing.T) {
	t.Parallel()
	s := newMail(t, ", rare: 3h, answer: {events: log, type: event}")
	const first, second = `{"event":"message.sent","message_id":"m1","timestamp":1}`, `{"event":"message.lost","message_id":"m1","timestamp":2}`
	s.provider.answer("m1", says(http.StatusOK, `{"log":[`+first+`, `+second+`]}`))
	s.provider.answer("m2", says(http.StatusOK, `{"log":[]}`))
	s.sent("m1", "m2")
	r := s.start()
	s.await("true", "select (last_poll_result like '%message.lost%')::text from submitted_tasks where task_id = 'm1'")
	s.await("no event", result, "m2")
	if got := s.text("select string_agg(convert_from(body, 'UTF8'), '') from inbox_payload"); got != first {
		t.Errorf("stored is %s", got)
	}
	r.awaitMetric(`catchwater_reconciler_polls_total{result="unusable",source="mail"} 1`)
}

// TestTwoReconcilersShareMessages has each asked for once.
func TestTwoReconcilersShareMessages(t *testing.T) {
	t.Parallel()
	s := newMail(t, "")
	s.nats = startBroker(t).ClientURL()
	for n := range 60 {
		id := fmt.Sprintf("m%d", n)
		s.provider.answer(id, message(id, "complained", n+1))
		s.sent(id)
	}
	s.start()
	s.start()
	s.await("60", "select count(*)::text from submitted_tasks where settled_at is not null")
	if got := s.text("select concat_ws(' ', count(*), count(distinct event_key), (select sum(polls) from submitted_tasks)) from inbox"); got != "60 60 60" {
		t.Errorf("rows, keys and polls are %s, want 60 of each", got)
	}
}

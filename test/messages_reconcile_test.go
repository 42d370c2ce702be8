package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

// askable is a system with the source mail, whose provider can be asked for
// messages 200 ms after they were registered, and delivers to the ingress.
func askable(t *testing.T) (*harness.System, *harness.Service, harness.Simulator) {
	t.Helper()
	s, ingress := mailSystem(t)
	simulator, _ := s.Simulator(ingress.Addr)
	s.Configure(mailConfig + fmt.Sprintf("    reconcile: {base_url: 'http://%s', token: {env: KOLTRIX_API_KEY}, after: 200ms, rate: 500, interval: 300ms}\n", simulator.Addr))
	s.StartService("processor")
	return s, ingress, simulator
}

// message makes a message with a history at the provider. Events in brackets are
// never delivered.
func message(simulator harness.Simulator, id string, history ...string) {
	simulator.T.Helper()
	steps := make([]map[string]any, len(history))
	for i, event := range history {
		lost := strings.HasPrefix(event, "[")
		steps[i] = map[string]any{"event": strings.Trim(event, "[]"), "noDelivery": lost}
	}
	status := simulator.Call(http.MethodPost, "/control/koltrix/messages", map[string]any{"message_id": id, "to": []string{"a@example.org"}, "history": steps}, nil)
	if status >= 300 {
		simulator.T.Fatalf("making the message %s is answered %d", id, status)
	}
}

// mailFaults sets what goes wrong with the provider's API.
func mailFaults(simulator harness.Simulator, api map[string]any) {
	simulator.T.Helper()
	if status := simulator.Call(http.MethodPut, "/control/koltrix/faults", map[string]any{"api": api}, nil); status != http.StatusNoContent {
		simulator.T.Fatalf("the faults are answered %d", status)
	}
}

// TestABounceThatNeverArrived is the reference document's case: the provider
// tries each webhook once, and the one about the bounce is lost.
func TestABounceThatNeverArrived(t *testing.T) {
	t.Parallel()
	s, ingress, simulator := askable(t)
	register(s, "m1", "m2")
	message(simulator, "m1", "sent", "[bounced]")
	message(simulator, "m2", "sent", "delivered")
	s.AwaitInt(30*time.Second, 1, "select count(*) from messages where message_id = 'm1' and status = 'sent'")
	s.AwaitInt(30*time.Second, 1, "select count(*) from messages where message_id = 'm2' and status = 'delivered'")
	if n := s.Int("select count(*) from inbox where origin = 'delivery' and state = 'processed'"); n != 3 {
		t.Errorf("%d events were delivered, want 3", n)
	}
	reconciler := s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(30*time.Second, 1, "select count(*) from messages where message_id = 'm1' and status = 'bounced' and final")
	s.AwaitInt(30*time.Second, 1, "select count(*) from submitted_tasks where source = 'mail' and task_id = 'm1' and settled_at is not null and last_poll_result = 'bounced'")
	if n := s.Int("select count(*) from suppressions where recipient = 'a@example.org' and reason = 'bounced'"); n != 1 {
		t.Error("the recipient is not suppressed")
	}
	if n := s.Int("select count(*) from submitted_tasks where task_id = 'm2'"); n != 0 {
		t.Error("a message with a final status was asked for")
	}
	const bounce = "select count(*) from inbox where subject = 'm1' and event_type = 'message.bounced' and origin = 'reconcile' and state = 'processed' " +
		"and event_key = 'm1|message.bounced|' || extract(epoch from occurred_at)::bigint || '|a@example.org'"
	if n := s.Int(bounce); n != 1 {
		t.Error("the bounce is not in the inbox under the key that its delivery has")
	}
	if n := reconciler.Metric(`catchwater_reconciler_recovered_total{source="mail"}`); n != 1 {
		t.Errorf("%v events came only by asking, want 1", n)
	}

	// The delivery, should it come after all, is a duplicate, not a conflict.
	at := s.Int("select extract(epoch from occurred_at)::bigint from inbox where event_type = 'message.bounced'")
	happened(t, ingress, harness.Happening{Message: "m1", Event: "bounced", At: int64(at)})
	if n := ingress.Metric(`catchwater_ingress_deliveries_total{outcome="duplicate",source="mail"}`); n != 1 {
		t.Errorf("%v duplicates are counted, want 1", n)
	}
	if n := s.Int("select count(*) from inbox where subject = 'm1'"); n != 2 {
		t.Errorf("%d events of the message are in the inbox, want 2", n)
	}
}

// TestMessagesAreAskedForUnderTheRulesOfTasks has the provider answer all that it
// can, to two reconcilers.
func TestMessagesAreAskedForUnderTheRulesOfTasks(t *testing.T) {
	t.Parallel()
	s, _, simulator := askable(t)
	const count = 60
	ids := make([]string, count)
	for n := range ids {
		ids[n] = fmt.Sprintf("m%d", n)
		message(simulator, ids[n], "[sent]", "[complained]")
	}
	register(s, append(ids, "nobody knows")...)
	mailFaults(simulator, map[string]any{"tooMany": 1000000, "retryAfterSeconds": 2})
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	s.AwaitInt(30*time.Second, 1, "select count(*) from poll_limits where source = 'mail' and pause_reason like '429%'")
	mailFaults(simulator, map[string]any{"serverErrors": 5})
	s.AwaitInt(60*time.Second, count, "select count(*) from messages where status = 'complained'")
	s.AwaitInt(30*time.Second, 1, "select count(*) from submitted_tasks where task_id = 'nobody knows' and settled_at is null and last_poll_result like '404%' and next_poll_at > now() + interval '20 hours'")
	s.AwaitInt(30*time.Second, count, "select count(*) from submitted_tasks where settled_at is not null")
	if n := s.Int("select count(*) from inbox"); n != count {
		t.Errorf("%d rows are in the inbox, want %d", n, count)
	}
	s.Exec("delete from messages where message_id = 'nobody knows'")
	s.AwaitInt(30*time.Second, 0, "select count(*) from submitted_tasks where settled_at is null")
}

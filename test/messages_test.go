package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

const mailConfig = "sources:\n  mail:\n    preset: koltrix\n    secrets: [{env: KOLTRIX_SECRET}]\n"

// mailSystem is a system with the source mail, whose settings can be extended by
// lines.
func mailSystem(t *testing.T, lines ...string) (*harness.System, *harness.Service) {
	t.Helper()
	s := harness.New(t)
	config := mailConfig
	for _, line := range lines {
		config += "    " + line + "\n"
	}
	s.Configure(config)
	return s, s.StartService("ingress")
}

func happened(t *testing.T, ingress *harness.Service, h harness.Happening) {
	t.Helper()
	status, err := harness.PostKoltrix(ingress.Addr, "/hooks/mail", h.Body(), harness.Secret)
	if err != nil || status != http.StatusNoContent {
		t.Fatalf("%+v: answered %d, %v", h, status, err)
	}
}

func register(s *harness.System, ids ...string) {
	s.T.Helper()
	s.Exec("insert into messages (source, message_id) select 'mail', unnest($1::text[])", ids)
}

const processedCount = "select count(*) from inbox where state = 'processed'"

func TestABounceBeforeSent(t *testing.T) {
	t.Parallel()
	s, ingress := mailSystem(t)
	s.StartService("processor")
	register(s, "m1")
	happened(t, ingress, harness.Happening{Message: "m1", Event: "bounced", At: 1767323050})
	s.AwaitInt(30*time.Second, 1, processedCount)
	happened(t, ingress, harness.Happening{Message: "m1", Event: "sent", At: 1767323045})
	s.AwaitInt(30*time.Second, 2, processedCount)
	if n := s.Int("select count(*) from messages where message_id = 'm1' and status = 'bounced' and rank = 60 and status_at = to_timestamp(1767323050)"); n != 1 {
		t.Error("the late sent has moved the status")
	}
	if n := s.Int("select count(*) from message_events where message_id = 'm1' and type in ('message.sent', 'message.bounced')"); n != 2 {
		t.Errorf("%d events are recorded, want 2", n)
	}
	if n := s.Int("select count(*) from suppressions where recipient = 'a@example.org' and reason = 'bounced'"); n != 1 {
		t.Error("the recipient is not suppressed")
	}
}

func TestOpenedAfterComplained(t *testing.T) {
	t.Parallel()
	s, ingress := mailSystem(t)
	s.StartService("processor")
	register(s, "m1")
	happened(t, ingress, harness.Happening{Message: "m1", Event: "complained", At: 1767323050})
	s.AwaitInt(30*time.Second, 1, processedCount)
	for range 2 {
		happened(t, ingress, harness.Happening{Message: "m1", Event: "opened", At: 1767323048})
	}
	// Another recipient in the same second is another event.
	happened(t, ingress, harness.Happening{Message: "m1", Event: "opened", At: 1767323048, To: "b@example.org"})
	s.AwaitInt(30*time.Second, 3, processedCount)
	if n := s.Int("select count(*) from messages where status = 'complained' and opened = 2 and first_opened_at = to_timestamp(1767323048)"); n != 1 {
		t.Error("the message does not stand as complained, opened twice")
	}
}

func TestEventsWaitForTheirMessage(t *testing.T) {
	t.Parallel()
	s, ingress := mailSystem(t, "messages: {orphan_after: 1s}")
	processor := s.StartService("processor", "CATCHWATER_MAX_ATTEMPTS=1")
	happened(t, ingress, harness.Happening{Message: "early", Event: "delivered", At: 1767323045})
	happened(t, ingress, harness.Happening{Message: "orphan", Event: "delivered", At: 1767323045})
	happened(t, ingress, harness.Happening{Message: "orphan", Event: "surprised", At: 1767323046})
	s.AwaitInt(30*time.Second, 3, "select count(*) from inbox where state = 'waiting' and attempts = 0")
	// As if they had waited for long: nobody would look at them for minutes.
	s.Exec("update inbox set next_attempt_at = now() + interval '10 minutes' where state = 'waiting'")
	harness.Await(t, 60*time.Second, "the orphans to be counted", func() error {
		if n := processor.Metric(`catchwater_inbox_orphans{source="mail"}`); n != 3 {
			return fmt.Errorf("there are %v", n)
		}
		return nil
	})
	register(s, "early")
	s.AwaitInt(30*time.Second, 1, "select count(*) from messages where message_id = 'early' and status = 'delivered'")
	if n := s.Int("select count(*) from inbox where state = 'waiting' and subject = 'orphan'"); n != 2 {
		t.Errorf("%d orphans are kept, want 2", n)
	}
	register(s, "orphan")
	s.AwaitInt(30*time.Second, 3, processedCount)
}

func TestTheFirstEventCreatesTheMessageWhereThatIsSet(t *testing.T) {
	t.Parallel()
	s, ingress := mailSystem(t, "messages: {create: true}")
	s.StartService("processor")
	happened(t, ingress, harness.Happening{Message: "m1", Event: "opened", At: 1767323045})
	s.AwaitInt(30*time.Second, 1, "select count(*) from messages where message_id = 'm1' and status = 'opened' and opened = 1")
}

// TestManyEventsInALittleBodyCountForWhatTheyTake sends some that fit into the
// ingress's memory for bodies, and more than do.
func TestManyEventsInALittleBodyCountForWhatTheyTake(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.Configure("sources:\n  many:\n    preset: koltrix\n    secrets: [{env: KOLTRIX_SECRET}]\n    projection: none\n    events: $\n    key: [n]\n")
	ingress := s.StartService("ingress", "CATCHWATER_BODY_MEMORY=4194304", "CATCHWATER_BATCH_ROWS=10")
	for count, want := range map[int]int{1000: http.StatusNoContent, 9000: http.StatusServiceUnavailable} {
		var body strings.Builder
		for n := range count {
			fmt.Fprintf(&body, `,{"n":%d}`, n)
		}
		text := "[" + body.String()[1:] + "]"
		status, err := harness.PostKoltrix(ingress.Addr, "/hooks/many", []byte(text), harness.Secret)
		if err != nil || status != want {
			t.Errorf("%d events in %d bytes: answered %d, %v; want %d", count, len(text), status, err, want)
		}
	}
	if n := s.Int("select count(*) from inbox"); n != 1000 {
		t.Errorf("%d rows are stored, want 1000", n)
	}
}

// TestTheWorkedExampleOfArrays takes the example of the documentation as it
// stands there, and sends what SendGrid sends.
func TestTheWorkedExampleOfArrays(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(s.Dir, "sendgrid-verification-key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(public)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Configure(strings.Replace(documented(t, "  sendgrid:\n"), "/run/secrets/sendgrid-verification-key", keyFile, 1))
	ingress := s.StartService("ingress")
	s.StartService("processor")
	s.Exec("insert into messages (source, message_id) values ('sendgrid', 'order-1'), ('sendgrid', 'order-2')")
	const (
		processed = `{"email":"a@example.org","timestamp":1767323045,"event":"processed","sg_event_id":"e1","sg_message_id":"x.1","our_message_id":"order-1"}`
		bounce    = `{"email":"a@example.org","timestamp":1767323049,"event":"bounce","status":"5.0.0","sg_event_id":"e2","sg_message_id":"x.1","our_message_id":"order-1"}`
		open      = `{"email":"b@example.org","timestamp":1767323050,"event":"open","useragent":"\u00e9","sg_event_id":"e3","our_message_id":"order-2"}`
		group     = `{"email":"b@example.org","timestamp":1767323060,"event":"group_unsubscribe","asm_group_id":10,"sg_event_id":"e4","our_message_id":"order-2"}`
		resub     = `{"email":"b@example.org","timestamp":1767323070,"event":"group_resubscribe","asm_group_id":10,"sg_event_id":"e5","our_message_id":"order-2"}`
	)
	post := func(want int, elements ...string) {
		t.Helper()
		body := []byte("[" + strings.Join(elements, ",\n") + "]")
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		digest := sha256.Sum256(append([]byte(stamp), body...))
		signature, err := ecdsa.SignASN1(rand.Reader, private, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		status, err := harness.Send(ingress.Addr, "/hooks/sendgrid", body, map[string]string{
			"X-Twilio-Email-Event-Webhook-Timestamp": stamp,
			"X-Twilio-Email-Event-Webhook-Signature": base64.StdEncoding.EncodeToString(signature),
		})
		if err != nil || status != want {
			t.Fatalf("answered %d, %v", status, err)
		}
	}
	post(http.StatusNoContent, bounce, open, processed)
	post(http.StatusNoContent, processed, open, open) // bundled otherwise the next time
	post(http.StatusNoContent, group, `{"event":"open"}`, resub)
	s.AwaitInt(30*time.Second, 5, processedCount)
	if n := s.Int("select count(*) from inbox where state = 'quarantined' and last_error like '%no sg_event_id%'"); n != 1 {
		t.Errorf("%d elements without their key are quarantined, want 1", n)
	}
	if n := s.Int(`select count(*) from messages where (message_id, status, rank, opened) in (('order-1', 'bounced', 60, 0), ('order-2', 'unsubscribed', 50, 1))`); n != 2 {
		t.Error("the messages do not stand as bounced, and as unsubscribed and opened once")
	}
	if n := s.Int(`select count(*) from suppressions where (recipient, reason, category, event_key) in
		(('a@example.org', 'bounced', '', 'e2'), ('b@example.org', 'unsubscribed', '10', 'e4'))`); n != 2 {
		t.Error("the suppressions are not a's bounce, and b's of group 10")
	}
	if n := s.Int("select count(*) from webhook_events where event_key = 'e3' and raw_body = $1", []byte(open)); n != 1 {
		t.Error("the element's bytes are not as they were sent")
	}
}

// documented returns the one example of docs/sources.md that has a text in it.
func documented(t *testing.T, text string) string {
	t.Helper()
	data, err := os.ReadFile("../docs/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "```yaml\n")[1:] {
		if example, _, _ := strings.Cut(block, "```"); strings.Contains(example, text) {
			return example
		}
	}
	t.Fatalf("no example has %q", text)
	return ""
}

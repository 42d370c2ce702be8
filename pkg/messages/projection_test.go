package messages_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/messages"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/projection"
	"github.com/catchwater/catchwater/pkg/source"
)

// fixture is the projection over a database, as the processor's role.
type fixture struct {
	t       *testing.T
	owner   *pgxpool.Pool
	db      *pgxpool.Pool
	sources *source.Config
}

func newFixture(t *testing.T, settings ...string) *fixture {
	t.Helper()
	text := "sources:\n  mail:\n    preset: koltrix\n    secrets: [{env: A}]\n"
	for _, line := range settings {
		text += "    " + line + "\n"
	}
	sources, err := source.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.New(t)
	return &fixture{t: t, owner: pgtest.Pool(t, url), db: pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_processor")), sources: sources}
}

// koltrix is an event's body; its parts are type, time, and then message and
// recipient where they are not m1 and a@b.c.
func koltrix(event string) string {
	parts := append(strings.Fields(event), "", "")
	message, to := "m1", "a@b.c"
	if parts[2] != "" {
		message = parts[2]
	}
	if parts[3] != "" {
		to = parts[3]
	}
	return fmt.Sprintf(`{"event":"message.%s","timestamp":%s,"message_id":%q,"to":%q,"category":"news"}`, parts[0], parts[1], message, to)
}

// receive stores events and applies them in one batch. It returns what came of
// each, in their order.
func (f *fixture) receive(events ...string) []string {
	f.t.Helper()
	s := f.sources.Lookup("mail")
	var deliveries []inbox.Delivery
	for _, text := range events {
		for _, event := range s.Events(http.Header{}, []byte(koltrix(text)), []byte(koltrix(text))) {
			deliveries = append(deliveries, inbox.Delivery{
				Source: "mail", EventKey: event.EventKey, EventType: event.EventType, Subject: event.Subject,
				OccurredAt: event.OccurredAt, Origin: inbox.FromDelivery, Body: event.Body,
			})
		}
	}
	stored, err := inbox.NewStore(f.owner, 0).Insert(f.t.Context(), deliveries)
	if err != nil {
		f.t.Fatal(err)
	}
	ids := make([]int64, len(stored))
	for i, row := range stored {
		ids[i] = row.ID
	}
	result := f.apply(func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) { return inbox.ClaimIDs(ctx, tx, ids) })
	said := make([]string, len(ids))
	for i, id := range ids {
		change := result.Changes[id]
		switch {
		case result.Failed[id] != nil:
			said[i] = "failed: " + result.Failed[id].Error()
		case result.Waiting[id] != "":
			said[i] = "waits for " + result.Waiting[id]
		case change.Changed:
			said[i] = change.Previous + " → " + change.Status
		default:
			said[i] = change.Status
		}
	}
	return said
}

// apply applies what the claim returns, as the processor does.
func (f *fixture) apply(claim func(context.Context, pgx.Tx) ([]inbox.Row, error)) (result projection.Result) {
	f.t.Helper()
	err := pgx.BeginFunc(f.t.Context(), f.db, func(tx pgx.Tx) error {
		rows, err := claim(f.t.Context(), tx)
		if err != nil {
			return err
		}
		if result, err = messages.NewProjection(f.sources).Apply(f.t.Context(), tx, rows); err != nil {
			return err
		}
		var done []int64
		var waits []inbox.Wait
		for _, row := range rows {
			if what, waiting := result.Waiting[row.ID]; waiting {
				waits = append(waits, inbox.Wait{ID: row.ID, For: what})
			} else {
				done = append(done, row.ID)
			}
		}
		if err := inbox.PutOff(f.t.Context(), tx, waits); err != nil {
			return err
		}
		return inbox.Done(f.t.Context(), tx, done)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func (f *fixture) text(sql string, args ...any) string {
	f.t.Helper()
	var text *string
	if err := f.owner.QueryRow(f.t.Context(), sql, args...).Scan(&text); err != nil {
		f.t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

func (f *fixture) register(ids ...string) {
	f.t.Helper()
	if _, err := f.owner.Exec(f.t.Context(), "insert into messages (source, message_id) select 'mail', unnest($1::text[])", ids); err != nil {
		f.t.Fatal(err)
	}
}

const (
	state = `select string_agg(concat_ws(' ', message_id, status, rank, extract(epoch from status_at)::bigint, final,
		opened, extract(epoch from first_opened_at)::bigint, clicked, extract(epoch from first_clicked_at)::bigint), ', ' order by message_id) from messages`
	suppressed = `select string_agg(concat_ws(' ', recipient, reason, '[' || category || ']', event_key), ', ' order by recipient, reason, category) from suppressions`
)

func TestStatusIsByPrecedence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []string
		said   string
		want   string
	}{
		"in order": {[]string{"sent 1", "delivered 2", "opened 3", "clicked 4"}, "queued → sent; sent → delivered; delivered → opened; opened → clicked",
			"m1 clicked 40 4 t 1 3 1 4"},
		"bounce before sent":     {[]string{"bounced 5", "sent 1"}, "queued → bounced; sent", "m1 bounced 60 5 t 0 0"},
		"opened after complaint": {[]string{"complained 9", "opened 3"}, "queued → complained; opened", "m1 complained 70 9 t 1 3 0"},
		"the same rank keeps the earlier time": {[]string{"bounced 7", "bounced 5 m1 other@b.c", "bounced 6 m1 third@b.c"},
			"queued → bounced; bounced; bounced", "m1 bounced 60 5 t 0 0"},
		"queued, once it is said, has a time": {[]string{"queued 3"}, "queued", "m1 queued 0 3 f 0 0"},
		"sent is not final":                   {[]string{"sent 3"}, "queued → sent", "m1 sent 10 3 f 0 0"},
		"an unknown type moves nothing":       {[]string{"sent 3", "delayed 4"}, "queued → sent; ", "m1 sent 10 3 f 0 0"},
		"opens are counted by distinct events": {
			[]string{"opened 9", "opened 4", "opened 9 m1 other@b.c", "opened 9", "clicked 8", "clicked 8"},
			"queued → opened; opened; opened; ; opened → clicked; ", "m1 clicked 40 8 t 3 4 1 8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.register("m1")
			var said []string
			for _, event := range c.events {
				said = append(said, f.receive(event)...)
			}
			if said := strings.Join(said, "; "); said != c.said {
				t.Errorf("it said %s\nwant    %s", said, c.said)
			}
			if got := f.text(state); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEventsThatComeTogetherAreTakenInTheProvidersOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m1")
	if said := strings.Join(f.receive("clicked 4", "bounced 1", "sent 2", "bounced 7 m1 b@b.c"), "; "); said != "clicked; queued → bounced; sent; bounced" {
		t.Errorf("it said %s", said)
	}
	if said := strings.Join(f.receive("complained 9", "bounced 8", "delayed 8"), "; "); said != "bounced → complained; bounced; " {
		t.Errorf("then it said %s", said)
	}
}

func TestEventsAreRecordedAsSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m1")
	f.receive("opened 5", "opened 5 m1 other@b.c", "opened 5", "delayed 6")
	f.receive("opened 5")
	const events = `select string_agg(concat_ws(' ', source, message_id, type, recipient, extract(epoch from occurred_at)::bigint), ', '
		order by type, recipient) from message_events`
	if got, want := f.text(events), "mail m1 message.delayed a@b.c 6, mail m1 message.opened a@b.c 5, mail m1 message.opened other@b.c 5"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := f.text("select string_agg(distinct state::text, ',') from inbox"); got != "processed" {
		t.Errorf("rows are %s", got)
	}
	if got := f.text("select string_agg(message_id || ' ' || type || ' ' || (payload->>'to'), ', ' order by event_key) from webhook_events where type = 'message.opened'"); got != "m1 message.opened a@b.c, m1 message.opened other@b.c" {
		t.Errorf("webhook_events has %s", got)
	}
}

func TestARowProcessedAgainByHandCountsNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m1")
	f.receive("opened 5")
	before := f.text(state)
	if _, err := f.owner.Exec(t.Context(), "update inbox set state = 'pending', attempts = 0, next_attempt_at = now(), processed_at = null"); err != nil {
		t.Fatal(err)
	}
	f.receive("opened 5")
	if got := f.text(state); got != before {
		t.Errorf("%s became %s", before, got)
	}
}

func TestSuppressions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m1", "m2")
	f.receive("bounced 9", "bounced 7 m2", "complained 5 m1 b@b.c", "unsubscribed 6 m1 c@b.c", "opened 1 m1 d@b.c")
	want := "a@b.c bounced [] m2|message.bounced|7|a@b.c, b@b.c complained [] m1|message.complained|5|b@b.c, c@b.c unsubscribed [news] m1|message.unsubscribed|6|c@b.c"
	if got := f.text(suppressed); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f.receive("bounced 8 m2") // later than the first
	if got := f.text(suppressed); got != want {
		t.Errorf("after a later bounce: %s", got)
	}
	f.receive("bounced 3") // earlier, and late
	if got := f.text(suppressed); !strings.HasPrefix(got, "a@b.c bounced [] m1|message.bounced|3|a@b.c,") {
		t.Errorf("after an earlier bounce: %s", got)
	}
}

func TestEventsOfMessagesNotKnownYetWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m2")
	said := strings.Join(f.receive("bounced 5", "sent 1 m2", "sent 1", "opened 3 m3"), "; ")
	if want := "waits for message m1 to be registered; queued → sent; waits for message m1 to be registered; waits for message m3 to be registered"; said != want {
		t.Errorf("it said %s", said)
	}
	due := func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) {
		return inbox.ClaimDue(ctx, tx, f.epoch(), 0, 10)
	}
	f.later()
	if result := f.apply(due); len(result.Changes)+len(result.Waiting) != 0 {
		t.Errorf("rows are due before their message is registered: %+v", result)
	}
	f.register("m1", "m4") // plain SQL, which makes m1's rows due
	if result := f.apply(due); len(result.Changes) != 2 || len(result.Waiting) != 0 {
		t.Errorf("after the registration: %+v", result)
	}
	if got, want := f.text(state), "m1 bounced 60 5 t 0 0, m2 sent 10 1 f 0 0, m4 queued 0 f 0 0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := f.text("select string_agg(subject || ' ' || state || ' ' || attempts || ' ' || coalesce(last_error, ''), ', ' order by subject, id) from inbox"); got !=
		"m1 processed 1 , m1 processed 1 , m2 processed 1 , m3 waiting 0 waits for message m3 to be registered" {
		t.Errorf("the inbox has %s", got)
	}
}

// TestAnEventThatIsPutOffWhileItsMessageIsRegistered has the registration commit
// between the processor's look for the message and its own commit.
func TestAnEventThatIsPutOffWhileItsMessageIsRegistered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.receive("bounced 5", "bounced 5 m2")
	f.register("m1")
	f.later() // as the processor's putting it off does, that came after
	for range 2 {
		if woken, err := messages.Wake(t.Context(), f.db); err != nil || woken > 1 {
			t.Fatalf("%d are woken, %v", woken, err)
		}
	}
	if got := f.text("select string_agg(subject || ' ' || (next_attempt_at <= now())::text, ', ' order by subject) from inbox"); got != "m1 true, m2 false" {
		t.Errorf("due are %s", got)
	}
}

func TestTheFirstEventRegistersTheMessageWhereThatIsSet(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "messages: {create: true}")
	if said := strings.Join(f.receive("delayed 2 m3", "opened 3 m2", "sent 1"), "; "); said != "; queued → opened; queued → sent" {
		t.Errorf("it said %s", said)
	}
	if got, want := f.text(state), "m1 sent 10 1 f 0 0, m2 opened 30 3 t 1 3 0, m3 queued 0 f 0 0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEventsThatSayTooLittleFailForGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register("m1")
	if said := f.receive(`sent "yesterday"`, "sent 1"); said[0] != "failed: the event has no time that can be read (the source's occurred_at)" || said[1] != "queued → sent" {
		t.Errorf("it said %q", said)
	}
}

// TestAnIDThatEventsDoNotBearIsRefused registers what the refusal says instead.
func TestAnIDThatEventsDoNotBearIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("m", 513)
	for _, id := range []string{"", "nul \x00", "latin \xe9", long} {
		if _, err := messages.Register(t.Context(), f.owner, "mail", []string{"m1", id}); err == nil || (id != "") != strings.Contains(err.Error(), "wait for the message sha256:") {
			t.Errorf("%.10q: %v", id, err)
		}
	}
	_, err := messages.Register(t.Context(), f.owner, "mail", []string{long})
	hash := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(fmt.Sprint(err))
	f.register(hash)
	if said := f.receive("sent 1 " + long); said[0] != "queued → sent" {
		t.Errorf("the event about %s: %s", hash, said[0])
	}
}

// later is when rows that wait have been put off.
func (f *fixture) later() {
	f.t.Helper()
	if _, err := f.owner.Exec(f.t.Context(), "update inbox set next_attempt_at = now() + interval '1 hour' where state = 'waiting'"); err != nil {
		f.t.Fatal(err)
	}
}

func (*fixture) epoch() time.Time { return time.Unix(0, 0) }

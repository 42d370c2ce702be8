package processor

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/pkg/source"
)

// happening is a status event as the property test draws it.
type happening struct {
	message, event, to string
	at                 int64
}

var precedence = map[string]int{
	"queued": 0, "sent": 10, "delivered": 20, "opened": 30, "clicked": 40, "unsubscribed": 50, "bounced": 60, "complained": 70,
}

func drawHappening(t *rapid.T, prefix string) happening {
	names := []string{"queued", "sent", "delivered", "opened", "clicked", "unsubscribed", "bounced", "complained", "delayed"}
	return happening{
		message: prefix + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "message"),
		event:   rapid.SampledFrom(names).Draw(t, "event"),
		to:      rapid.SampledFrom([]string{"x@y.z", "v@y.z"}).Draw(t, "to"),
		at:      rapid.Int64Range(1, 5).Draw(t, "at"),
	}
}

// expected says what messages and suppressions come to, by the reference's words
// and none of the product's code.
func expected(happenings []happening) []string {
	distinct := make(map[happening]bool)
	for _, h := range happenings {
		distinct[h] = true
	}
	byMessage := make(map[string][]happening)
	suppressed := make(map[string]int64)
	for h := range distinct {
		byMessage[h.message] = append(byMessage[h.message], h)
		if h.event == "bounced" || h.event == "complained" || h.event == "unsubscribed" {
			name := strings.Join([]string{"suppressed", h.message, h.to, h.event}, " ")
			if at, seen := suppressed[name]; !seen || h.at < at {
				suppressed[name] = h.at
			}
		}
	}
	var rows []string
	for message, all := range byMessage {
		status, since := "queued", int64(0)
		count, first := map[string]int{}, map[string]int64{}
		for _, h := range all {
			rank, known := precedence[h.event]
			if known && (rank > precedence[status] || rank == precedence[status] && (since == 0 || h.at < since)) {
				status, since = h.event, h.at
			}
			count[h.event]++
			if first[h.event] == 0 || h.at < first[h.event] {
				first[h.event] = h.at
			}
		}
		rows = append(rows, fmt.Sprintln(message, status, precedence[status], since, count["opened"], first["opened"], count["clicked"], first["clicked"], len(all)))
	}
	for name, at := range suppressed {
		rows = append(rows, fmt.Sprintln(name, at))
	}
	slices.Sort(rows)
	return rows
}

// found is what the tables say, in the same form. A recipient is suppressed once
// for all of a source's messages, so each message has a source of its own there.
const found = `
select concat_ws(' ', m.message_id, m.status, m.rank, coalesce(extract(epoch from m.status_at)::bigint, 0), m.opened,
  coalesce(extract(epoch from m.first_opened_at)::bigint, 0), m.clicked, coalesce(extract(epoch from m.first_clicked_at)::bigint, 0),
  (select count(*) from message_events e where e.source = m.source and e.message_id = m.message_id)) || E'\n'
from messages m where m.message_id like $1 || '%'
union all
select concat_ws(' ', 'suppressed', split_part(s.event_key, '|', 1), s.recipient, s.reason, extract(epoch from s.occurred_at)::bigint) || E'\n'
from suppressions s where s.event_key like $1 || '%'`

// TestAnyOrderOfEventsEndsInTheSameRows shuffles events, repeats some, splits
// them over processors that work at the same time, and registers their messages
// in between.
func TestAnyOrderOfEventsEndsInTheSameRows(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	owner, pool := pgtest.Pool(t, url), pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_processor"))
	config := "sources:\n"
	for _, message := range []string{"a", "b", "c"} {
		config += "  mail-" + message + ": {preset: koltrix, secrets: [{env: A}]}\n"
	}
	sources, err := source.Parse("f.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("30") // each takes a good part of a second: events wait for their message
	}
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		prefix := fmt.Sprintf("run%d-", run)
		happenings := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) happening { return drawHappening(t, prefix) }), 1, 40).Draw(t, "events")
		again := rapid.SliceOfN(rapid.SampledFrom(happenings), 0, 10).Draw(t, "repeated")
		arriving := rapid.Permutation(slices.Concat(happenings, again)).Draw(t, "arriving")
		registeredAt := rapid.IntRange(0, len(arriving)).Draw(t, "registered after")

		var processors sync.WaitGroup
		stop := make(chan struct{})
		for n := range 3 {
			b := testBatcher(t, pool, sources)
			processors.Go(func() { work(t, b, 1+2*n, stop) })
		}
		for n, h := range arriving {
			if n == registeredAt {
				register(t, owner, arriving)
			}
			deliver(t, owner, sources, h)
		}
		register(t, owner, arriving)
		awaitProcessed(t, owner, prefix)
		close(stop)
		processors.Wait()

		rows, err := owner.Query(context.Background(), found, prefix)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if want := expected(happenings); !slices.Equal(got, want) {
			t.Fatalf("got\n%swant\n%s", strings.Join(got, ""), strings.Join(want, ""))
		}
		// Suppressions are of a recipient; the next run has the same ones.
		if _, err := owner.Exec(context.Background(), "truncate suppressions"); err != nil {
			t.Fatal(err)
		}
	})
}

func sourceOf(h happening) string { return "mail-" + h.message[len(h.message)-1:] }

func testBatcher(t *rapid.T, pool *pgxpool.Pool, sources *source.Config) *batcher {
	projections, err := projectionsOf(sources)
	if err != nil {
		t.Fatal(err)
	}
	return &batcher{
		db: pool, projections: projections, timeout: time.Minute, maxAttempts: 2, retryBase: time.Millisecond, retryMax: time.Millisecond,
		metrics: newMetrics(prometheus.NewRegistry(), nil, func() bool { return true }),
		plan:    effects.NewPlan(nil, effects.Handlers{}),
	}
}

// pollEvery is between two looks that find nothing.
const pollEvery = 5 * time.Millisecond

// work processes due rows, a few at a time, until stopped.
func work(t *rapid.T, b *batcher, rows int, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		result, err := b.run(context.Background(), viaDoorbell, func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) {
			return inbox.ClaimDue(ctx, tx, time.Unix(0, 0), 0, rows)
		}, nil)
		if err != nil || len(result.failures) > 0 {
			t.Errorf("process: %v, failures %v", err, result.failures)
			return
		}
		if len(result.rows) == 0 {
			<-time.After(pollEvery)
		}
	}
}

func deliver(t *rapid.T, owner *pgxpool.Pool, sources *source.Config, h happening) {
	body := fmt.Appendf(nil, `{"event":"message.%s","timestamp":%d,"message_id":%q,"to":%q}`, h.event, h.at, h.message, h.to)
	id := sources.Lookup(sourceOf(h)).Identify(nil, body)
	stored, err := inbox.NewStore(owner, 0).Insert(context.Background(), []inbox.Delivery{{
		Source: sourceOf(h), EventKey: id.EventKey, EventType: id.EventType, Subject: id.Subject, OccurredAt: id.OccurredAt,
		Origin: inbox.FromDelivery, Body: body, Quarantine: id.Quarantine,
	}})
	if err = cmp.Or(err, stored[0].Err); err != nil {
		t.Fatal(err)
	}
}

func register(t *rapid.T, owner *pgxpool.Pool, happenings []happening) {
	for _, h := range happenings {
		if _, err := owner.Exec(context.Background(), "insert into messages (source, message_id) values ($1, $2) on conflict do nothing", sourceOf(h), h.message); err != nil {
			t.Fatal(err)
		}
	}
}

func awaitProcessed(t *rapid.T, owner *pgxpool.Pool, prefix string) {
	for deadline := time.Now().Add(time.Minute); ; {
		var open int
		err := owner.QueryRow(context.Background(), "select count(*) from inbox where state <> 'processed' and subject like $1 || '%'", prefix).Scan(&open)
		switch {
		case err != nil:
			t.Fatal(err)
		case open == 0:
			return
		case time.Now().After(deadline):
			t.Fatalf("%d rows are not processed", open)
		}
		<-time.After(pollEvery)
	}
}

package test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

// withBody counts the old rows of a state whose body is there.
const withBody = `
select count(*) from inbox i join inbox_payload p on p.inbox_id = i.id and p.received_at = i.received_at
where i.state = $1::inbox_state and i.received_at < now() - interval '30 days'`

// TestExpiredBodiesAreDroppedUnderLoad lets a reconciler drop a day past the
// retention, by itself and on its schedule, while deliveries go on: none of them
// is refused, the day's deliveries are still known when they come again, and rows
// that are not processed keep their bodies.
func TestExpiredBodiesAreDroppedUnderLoad(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress, processor := s.StartService("ingress"), s.StartService("processor")
	post := func(body []byte) {
		t.Helper()
		if status := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret); status != http.StatusNoContent {
			t.Fatalf("answered %d", status)
		}
	}
	var old [][]byte
	for n := range 100 {
		old = append(old, harness.Task(fmt.Sprintf("old-%d", n), "", "COMPLETED", "2026-01-02T03:04:05Z"))
		post(old[n])
	}
	post([]byte("signed, and no JSON"))
	s.AwaitInt(30*time.Second, 100, "select count(*) from inbox where state = 'processed'")
	processor.Stop()
	pending := harness.Task("pending", "", "COMPLETED", "2026-01-02T03:04:05Z")
	post(pending)

	// All of it was forty days ago, and in the partition of its day.
	day := time.Now().UTC().AddDate(0, 0, -40).Truncate(24 * time.Hour)
	partition := "inbox_payload_" + day.Format("20060102")
	s.Exec(fmt.Sprintf("create table %s partition of inbox_payload for values from ('%s') to ('%s')",
		partition, day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
	s.Exec("update inbox_payload set received_at = $1", day.Add(12*time.Hour))
	s.Exec("update inbox set received_at = $1", day.Add(12*time.Hour))
	for state, want := range map[string]int{"processed": 100, "quarantined": 1, "pending": 1} {
		if n := s.Int(withBody, state); n != want {
			t.Fatalf("%d old rows are %s and have a body, want %d", n, state, want)
		}
	}

	l := &load{refused: make(map[int]int)}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(16, stop, func() string { return ingress.Addr })
	}()
	s.StartService("reconciler", "CATCHWATER_PARTITIONS_INTERVAL=1s", "CATCHWATER_PAYLOAD_RETENTION=720h")
	s.AwaitInt(time.Minute, 0, "select count(*) from pg_class where relname = $1", partition)
	harness.Await(t, time.Minute, "deliveries before and after", func() error {
		if n := s.Int("select count(*) from inbox where received_at > now() - interval '1 day'"); n < 1000 {
			return fmt.Errorf("%d came", n)
		}
		return nil
	})
	close(stop)
	<-done
	l.assertNoneRefused(t)

	for state, want := range map[string]int{"processed": 0, "quarantined": 1, "pending": 1} {
		if n := s.Int(withBody, state); n != want {
			t.Errorf("%d old rows are %s and have a body, want %d", n, state, want)
		}
	}
	rows := s.Int("select count(*) from inbox")
	for _, body := range append(old, pending) {
		post(body)
	}
	if n := s.Int("select count(*) from inbox"); n != rows {
		t.Errorf("duplicates of a day that was dropped made %d rows", n-rows)
	}
	if n := ingress.Metric(`catchwater_ingress_deliveries_total{outcome="duplicate",source="answers"}`); n != float64(len(old)+1) {
		t.Errorf("%v duplicates were counted, want %d", n, len(old)+1)
	}
	processor.Start()
	s.AwaitInt(30*time.Second, 1, "select count(*) from answers where task_id = 'pending'")
	assertAllAnswered(t, s, l.accepted)
}

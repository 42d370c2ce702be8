package reconciler_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/pgtest"
)

// pause is what the source's row says: the reason, and the seconds left.
const pause = "select pause_reason || ' ' || ceil(extract(epoch from paused_until - now()) / 10) * 10 from poll_limits"

func TestTooManyStopsTheRunForAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	always := func(retryAfter string) func() string { return func() string { return retryAfter } }
	for name, c := range map[string]struct {
		retryAfter func() string // when the subtest runs, which may be long after it was listed
		want       string
	}{
		"seconds":      {always("120"), "429 120"},
		"a date":       {func() string { return time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat) }, "429 1800"},
		"nothing":      {always(""), "429 60"},
		"nonsense":     {always("soon"), "429 60"},
		"far too long": {always("864000"), "429 3600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, pgtest.New(t), "")
			const count = 50
			for n := range count {
				id := fmt.Sprintf("t%d", n)
				s.provider.answer(id, task(id, "COMPLETED"))
				s.submit(id)
			}
			var header []string
			if retryAfter := c.retryAfter(); retryAfter != "" {
				header = []string{"Retry-After", retryAfter}
			}
			s.provider.setBusy(says(http.StatusTooManyRequests, "", header...))
			s.start()
			s.await(c.want, pause)
			// Give the run every chance to go on: many scans' time.
			s.start()
			s.await("t", "select 't' from pg_sleep(1)")
			if asked := len(s.provider.usedKeys()); asked > 2 { // one of each worker
				t.Errorf("%d requests were made into a 429", asked)
			}
			s.provider.setBusy(nil)
			s.exec("update poll_limits set paused_until = now()")
			s.exec("update submitted_tasks set next_poll_at = now() where last_poll_result is not null")
			s.await("0", open)
		})
	}
}

func TestAKeyThatIsRefusedPausesTheSourceAndCanBeReplaced(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	s.provider.refused = "the-api-key"
	s.provider.answer("t1", task("t1", "COMPLETED"))
	s.submit("t1")
	r := s.start()
	s.await("401 UNAUTHORIZED 300", pause)
	s.await("401 UNAUTHORIZED", result, "t1")
	r.awaitMetric(`catchwater_reconciler_polls_total{result="unauthorized",source="answers"} 1`)
	if log := r.log.String(); !strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "the-api-key") {
		t.Error("the log does not speak of an error, or tells the key")
	}
	if log := r.log.String(); !strings.Contains(log, "file "+s.path("key")) {
		t.Error("the log does not name the key's place")
	}
	s.writeKey("the-next-key")
	s.await("0", open) // long before the pause would have ended by itself
	if keys := s.provider.usedKeys(); !slices.Equal(keys, []string{"the-api-key", "the-next-key"}) {
		t.Errorf("asked with the keys %v", keys)
	}
}

package catchwater

import (
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/pgtest"
)

func TestMessagesStandByStatusBelowEachOther(t *testing.T) {
	t.Parallel()
	s := summary{statuses: []statusCount{{"queued", 2}, {"sent", 30}, {"opened", 123456}, {"unsubscribed", 7}}}
	want := "  messages     queued 2           sent 30          opened 123456\n" +
		"               unsubscribed 7"
	if got := strings.Join(s.messageLines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.messages() != 123495 {
		t.Errorf("counted %d messages", s.messages())
	}
	if lines := (summary{}).messageLines(); len(lines) != 0 {
		t.Errorf("without messages there are %q", lines)
	}
}

// TestThePageFitsATerminal has all there can be.
func TestThePageFitsATerminal(t *testing.T) {
	t.Parallel()
	u := &setup{upCommand: &upCommand{}, folder: &folder{root: "/data"}}
	s := summary{waiting: 3, effects: 12, givenUp: 4, statuses: make([]statusCount, 8), latest: make([]latestAnswer, 4)}
	lines := s.page(u, time.Minute, nil)
	page := strings.Join(lines, "\n")
	if len(lines) > pageLines || !strings.HasSuffix(page, "Ctrl-C stops everything.") {
		t.Errorf("%d lines:\n%s", len(lines), page)
	}
	for _, want := range []string{"  waiting      3 events for their message", "  effects      pending 12         given up 4\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if line := s.line(); !strings.HasSuffix(line, ", waiting for their message 3, effects pending 12 given up 4") {
		t.Errorf("the line is %s", line)
	}
	s.waiting, s.effects, s.givenUp = 0, 0, 0
	if text := strings.Join(s.page(u, time.Minute, nil), "\n") + s.line(); strings.Contains(text, "waiting") || strings.Contains(text, "effects") {
		t.Errorf("there is something of what there is not in\n%s", text)
	}
}

// TestTheSummaryOfASystem reads one that has rows of a source that was taken out.
func TestTheSummaryOfASystem(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.New(t))
	if _, err := pool.Exec(t.Context(), `insert into submitted_tasks (source, task_id) values ('answers', 't1'), ('former', 't2'), ('former', 't3')`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `insert into effects (source, event_key, name, inbox_id, received_at, state, next_attempt_at, last_error) values
('mail', 'k1', 'crm', 1, now(), 'given_up', null, 'no'), ('mail', 'k2', 'crm', 2, now(), 'pending', now(), null), ('mail', 'k3', 'crm', 3, now(), 'pending', now(), null)`); err != nil {
		t.Fatal(err)
	}
	s, err := readSummary(t.Context(), pool, []string{"answers", "mail"})
	if err != nil || s.open != 1 || s.effects != 2 || s.givenUp != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

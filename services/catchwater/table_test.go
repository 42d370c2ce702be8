package catchwater

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/pgtest"
)

func TestATableShowsWhatCannotBeSeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := newTable(&out, "KEY", "AT", "ERROR")
	table.row("red \x1b[31m", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "two\nlines\tand \u202e\u00a0, größe")
	table.row(7, "-", strings.Repeat("é", 81))
	if err := table.end(true); err != nil {
		t.Fatal(err)
	}
	want := `KEY           AT                   ERROR
red \x1b[31m  2026-01-02 03:04:05  two\nlines\tand \u202e\u00a0, größe
7             -                    ` + strings.Repeat("é", 80) + `…
… more: --limit
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestListsSayWhatTheyLeaveOut has rows with a sender's own idea of a type.
func TestListsSayWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool := pgtest.Pool(t, url)
	if _, err := pool.Exec(t.Context(), `
insert into inbox (source, event_key, event_type, body_hash, state, next_attempt_at)
select 'answers', 'k' || n, E'\\x1b]0;title' || repeat('x', 200), '', 'pending', now() from generate_series(1, 3) n`); err != nil {
		t.Fatal(err)
	}
	onDatabase(t, url, "messages", "add", "--source", "mail", "m1", "m2", "m3")
	onDatabase(t, url, "tasks", "add", "t1", "t2", "t3")
	const more = "\n… more: --limit\n"
	for _, list := range []string{"inbox", "messages", "tasks"} {
		out := onDatabase(t, url, list, "list", "--limit", "2")
		if !strings.HasSuffix(out, more) || strings.Count(out, "\n") != 4 || strings.Contains(out, "\x1b") || strings.Contains(out, strings.Repeat("x", 81)) {
			t.Errorf("%s: got\n%q", list, out)
		}
		if out := onDatabase(t, url, list, "list", "--limit", "3"); strings.Contains(out, "more") {
			t.Errorf("%s: nothing more, got\n%s", list, out)
		}
		if out := onDatabase(t, url, list, "list", "--limit", "2", "--json"); strings.Count(out, "\n") != 2 {
			t.Errorf("%s: got\n%s", list, out)
		}
	}
}

// TestAListOfASourceThatIsNotThere tells it from one of which nothing is there.
func TestAListOfASourceThatIsNotThere(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	if _, err := pgtest.Pool(t, url).Exec(t.Context(), "insert into messages (source, message_id) values ('former', 'm1')"); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"inbox list --source nope":       `there is no source "nope"`,
		"tasks list --source nope":       `there is no source "nope"`,
		"messages list --source nope":    `there is no source "nope"`,
		"messages list --status foo":     `gives the status "foo"; there are: bounced, clicked, complained, delivered, opened, queued, sent, unsubscribed`,
		"inbox list --older-than=-1h":    "--older-than is -1h0m0s: use 0s or more",
		"tasks list --older-than=-1h":    "--older-than is -1h0m0s: use 0s or more",
		"messages list --older-than=-1s": "--older-than is -1s: use 0s or more",
	} {
		if exit, out := runOnDatabase(t, url, strings.Fields(args)...); exit != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: exit status %d, with %q wanted in:\n%s", args, exit, want, out)
		}
	}
	for args, want := range map[string]string{"inbox list --source answers": "ID", "messages list --status opened": "SOURCE", "messages list --source former": "m1"} {
		if out := onDatabase(t, url, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

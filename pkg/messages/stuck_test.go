package messages_test

import (
	"maps"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/messages"
)

func TestStuck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.owner.Exec(t.Context(), `
insert into messages (source, message_id, final, registered_at)
select s, s || n, n = 1, now() - n * interval '1 h'
from unnest('{mail,post,other}'::text[]) s, generate_series(0, 4) n`); err != nil {
		t.Fatal(err)
	}
	// Of mail those of 2, 3 and 4 hours ago, of post the one of 4; nobody asked for
	// others, and quiet has none.
	got, err := messages.Stuck(t.Context(), f.db, map[string]time.Duration{
		"mail": 30 * time.Minute, "post": 3*time.Hour + time.Minute, "quiet": time.Minute,
	})
	if err != nil || !maps.Equal(got, map[string]int64{"mail": 3, "post": 1}) {
		t.Errorf("got %v, %v", got, err)
	}
}

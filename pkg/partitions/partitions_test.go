package partitions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/partitions"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

const month = 30 * 24 * time.Hour

// database returns pools of a migrated database: the superuser's, and that of
// the role that keeps the partitions.
func database(t *testing.T) (super, keeper *pgxpool.Pool) {
	t.Helper()
	url := pgtest.New(t)
	return pgtest.Pool(t, url), pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_reconciler"))
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scalar[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// daysAgo makes the partition of a day gone by and returns its name.
func daysAgo(t *testing.T, db *pgxpool.Pool, days int) string {
	t.Helper()
	day := time.Now().UTC().AddDate(0, 0, -days).Truncate(24 * time.Hour)
	name := "inbox_payload_" + day.Format("20060102")
	exec(t, db, fmt.Sprintf("create table %s partition of inbox_payload for values from ('%s') to ('%s')", name,
		day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
	return name
}

// store puts a row with its body into the inbox, as if received at noon of a
// day gone by.
func store(t *testing.T, db *pgxpool.Pool, key, state string, days int) int64 {
	t.Helper()
	noon := time.Now().UTC().AddDate(0, 0, -days).Truncate(24 * time.Hour).Add(12 * time.Hour)
	return scalar[int64](t, db, `
with row as (
  insert into inbox (source, event_key, received_at, body_hash, state, next_attempt_at, last_error, processed_at)
  values ('answers', $1, $2, '\x00', $3::inbox_state, case when $3::inbox_state in ('pending', 'waiting') then now() end,
          case when $3::inbox_state = 'quarantined' then 'why' end, case when $3::inbox_state = 'processed' then now() end)
  returning id, received_at
)
insert into inbox_payload (inbox_id, received_at, body) select id, received_at, convert_to('body of ' || $1, 'UTF8') from row
returning inbox_id`, key, noon, state)
}

// bodies returns which of the rows have their body, by key.
func bodies(t *testing.T, db *pgxpool.Pool, ids map[string]int64) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for key, id := range ids {
		if body, err := inbox.Body(t.Context(), db, id); err == nil && string(body) == "body of "+key {
			found[key] = true
		}
	}
	return found
}

func TestMigratingMakesAWeekAndTheKeeperGoesOn(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	if made, err := partitions.MakeAhead(t.Context(), keeper, 7); err != nil || len(made) != 0 {
		t.Fatalf("after migrating there was something to make: %v, %v", made, err)
	}
	made, err := partitions.MakeAhead(t.Context(), keeper, 9)
	if err != nil || len(made) != 2 || !made[0].Made || !made[1].Made {
		t.Fatalf("two days further: %v, %v", made, err)
	}
	for days := range 10 {
		day := time.Now().UTC().AddDate(0, 0, days).Truncate(24 * time.Hour)
		want := "inbox_payload_" + day.Format("20060102")
		for _, moment := range []time.Time{day, day.Add(24*time.Hour - time.Microsecond)} {
			got := scalar[string](t, super, "insert into inbox_payload (inbox_id, received_at, body) values (1, $1, '') returning tableoid::regclass::text", moment)
			if got != want {
				t.Errorf("a body of %s went to %s, want %s", moment, got, want)
			}
		}
	}
}

func TestBodiesAreCompressedWithLZ4InEveryPartition(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	if _, err := partitions.MakeAhead(t.Context(), keeper, 8); err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.Repeat("much the same again and again; ", 1000))
	for _, at := range []time.Time{time.Now(), time.Now().AddDate(0, 0, 8), time.Now().AddDate(1, 0, 0)} {
		exec(t, super, "insert into inbox_payload (inbox_id, received_at, body) values (1, $1, $2)", at, body)
	}
	compressed := scalar[int](t, super, "select count(*) from inbox_payload where pg_column_compression(body) = 'lz4'")
	if compressed != 3 {
		t.Errorf("%d of 3 bodies are compressed with LZ4: made at migration, made by the keeper, default", compressed)
	}
	if others := scalar[int](t, super, `
select count(*) from pg_attribute a join pg_inherits h on h.inhrelid = a.attrelid
where h.inhparent = 'inbox_payload'::regclass and a.attname = 'body' and a.attcompression <> 'l'`); others != 0 {
		t.Errorf("%d partitions compress otherwise", others)
	}
}

func TestADayThatTheDefaultHasStaysThere(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	inTwoDays := time.Now().UTC().AddDate(0, 0, 2).Truncate(24 * time.Hour).Add(time.Hour)
	exec(t, super, "drop table inbox_payload_"+inTwoDays.Format("20060102"))
	exec(t, super, "drop table inbox_payload_"+inTwoDays.AddDate(0, 0, 1).Format("20060102"))
	insert := "insert into inbox_payload (inbox_id, received_at, body) values ($1, $2, '')"
	exec(t, super, insert, 1, inTwoDays)
	made, err := partitions.MakeAhead(t.Context(), keeper, 7)
	if err != nil || len(made) != 2 || made[0].Made || !made[1].Made {
		t.Errorf("got %v, %v; want the first skipped and the second made", made, err)
	}
	exec(t, super, insert, 2, inTwoDays)
	if n := scalar[int](t, super, "select count(*) from inbox_payload_default"); n != 2 {
		t.Errorf("the default has %d rows, want 2", n)
	}
}

func TestUnprocessedAndQuarantinedRowsKeepTheirBodies(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	expired, young := daysAgo(t, super, 32), daysAgo(t, super, 29)
	ids := map[string]int64{"young": store(t, super, "young", "processed", 29)}
	for _, state := range []string{"pending", "waiting", "quarantined", "processed"} {
		ids[state] = store(t, super, state, state, 32)
	}
	dropped, err := partitions.DropExpired(t.Context(), keeper, month)
	want := partitions.Expired{Partition: expired, Kept: 3, Dropped: true}
	if err != nil || len(dropped) != 1 || dropped[0] != want {
		t.Fatalf("got %v, %v; want %v", dropped, err, want)
	}
	got := bodies(t, super, ids)
	for key, want := range map[string]bool{"young": true, "pending": true, "waiting": true, "quarantined": true, "processed": false} {
		if got[key] != want {
			t.Errorf("the %s row has its body: %v, want %v", key, got[key], want)
		}
	}
	if n := scalar[int](t, super, "select count(*) from inbox"); n != 5 {
		t.Errorf("%d keys are left in the inbox, want all 5", n)
	}
	results, err := inbox.NewStore(super, 0).Insert(t.Context(), []inbox.Delivery{{Source: "answers", EventKey: "processed", Origin: inbox.FromDelivery}})
	if err != nil || results[0].Outcome != inbox.Conflict {
		t.Errorf("a key whose body is gone: %v, %v; it must go on deduplicating", results, err)
	}
	if scalar[bool](t, super, "select to_regclass($1) is not null", expired) || !scalar[bool](t, super, "select to_regclass($1) is not null", young) {
		t.Error("the wrong partition was dropped")
	}

	// Once they are processed, the default lets go of them as well.
	exec(t, super, "update inbox set state = 'processed', processed_at = now(), next_attempt_at = null where state in ('pending', 'waiting')")
	if n, err := partitions.TrimDefault(t.Context(), keeper, month); err != nil || n != 2 {
		t.Errorf("trimmed %d, %v; want 2", n, err)
	}
	if got := bodies(t, super, ids); len(got) != 2 || !got["quarantined"] || !got["young"] {
		t.Errorf("after trimming, bodies are left of %v", got)
	}
}

func TestEffectsThatAreNotPerformedKeepTheirBodies(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	daysAgo(t, super, 32)
	ids := make(map[string]int64)
	for _, state := range []string{"pending", "given_up", "performed"} {
		ids[state] = store(t, super, state, "processed", 32)
		exec(t, super, `
insert into effects (source, event_key, name, inbox_id, received_at, state, next_attempt_at, last_error, performed_at)
select source, event_key, 'crm', id, received_at, $2::effect_state, case when $2 = 'pending' then now() end,
  case when $2 = 'given_up' then 'why' end, case when $2 = 'performed' then now() end
from inbox where id = $1`, ids[state], state)
	}
	// One that is unprocessed as well is kept once.
	exec(t, super, "update inbox set state = 'pending', next_attempt_at = now(), processed_at = null where id = $1", ids["pending"])
	dropped, err := partitions.DropExpired(t.Context(), keeper, month)
	if err != nil || len(dropped) != 1 || dropped[0].Kept != 2 || !dropped[0].Dropped {
		t.Fatalf("got %v, %v", dropped, err)
	}
	exec(t, super, "update inbox set state = 'processed', next_attempt_at = null, processed_at = now() where state = 'pending'")
	for _, when := range []string{"dropping", "trimming"} {
		if got := bodies(t, super, ids); len(got) != 2 || got["performed"] {
			t.Errorf("after %s, bodies are left of %v", when, got)
		}
		if n, err := partitions.TrimDefault(t.Context(), keeper, month); err != nil || n != 0 {
			t.Errorf("trimmed %d, %v", n, err)
		}
	}
	exec(t, super, "update effects set state = 'performed', performed_at = now(), next_attempt_at = null")
	if n, err := partitions.TrimDefault(t.Context(), keeper, month); err != nil || n != 2 {
		t.Errorf("once they are performed: trimmed %d, %v", n, err)
	}
}

func TestAPartitionWithTooMuchToKeepStaysWhole(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	full, next := daysAgo(t, super, 40), daysAgo(t, super, 39)
	id := store(t, super, "one", "pending", 40)
	exec(t, super, `
with rows as (
  insert into inbox (source, event_key, received_at, body_hash, next_attempt_at)
  select 'answers', 'k' || n, received_at, '\x00', now() from inbox, generate_series(1, 10000) n where id = $1
  returning id, received_at
)
insert into inbox_payload (inbox_id, received_at, body) select id, received_at, 'x' from rows`, id)
	dropped, err := partitions.DropExpired(t.Context(), keeper, month)
	if err != nil || len(dropped) != 2 {
		t.Fatalf("got %v, %v", dropped, err)
	}
	if d := dropped[0]; d.Partition != full || d.Dropped || d.Kept <= 10_000 {
		t.Errorf("the full one: %+v", d)
	}
	if d := dropped[1]; d.Partition != next || !d.Dropped {
		t.Errorf("the one after it: %+v", d)
	}
	if n := scalar[int](t, super, "select count(*) from inbox_payload"); n != 10_001 {
		t.Errorf("%d bodies are left, want all 10001", n)
	}
}

// TestALockThatIsHeldIsNotWaitedForLong has a reader hold the table while an
// expired partition is to be dropped: deliveries must get past the keeper.
func TestALockThatIsHeldIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	super, keeper := database(t)
	expired := daysAgo(t, super, 40)
	reader, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), "select count(*) from inbox_payload"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	dropped, err := partitions.DropExpired(t.Context(), keeper, month)
	if err == nil || len(dropped) != 0 || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("beside a reader: %v, %v", dropped, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it was waited for %s", took)
	}
	store(t, super, "meanwhile", "pending", 0) // beside the reader, after the keeper
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dropped, err = partitions.DropExpired(t.Context(), keeper, month); err != nil || len(dropped) != 1 || dropped[0].Partition != expired {
		t.Errorf("after the reader: %v, %v", dropped, err)
	}
}

func TestWhoMayKeepPartitionsAndHow(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	keeper := pgtest.Pool(t, pgtest.RoleURL(t, url, "catchwater_reconciler"))
	if _, err := partitions.DropExpired(t.Context(), keeper, time.Hour); err == nil || !strings.Contains(err.Error(), "a day or more") {
		t.Errorf("dropping after an hour: %v", err)
	}
	if _, err := partitions.TrimDefault(t.Context(), keeper, time.Hour); err == nil || !strings.Contains(err.Error(), "a day or more") {
		t.Errorf("trimming after an hour: %v", err)
	}
	for _, role := range []string{"catchwater_ingress", "catchwater_processor"} {
		db := pgtest.Pool(t, pgtest.RoleURL(t, url, role))
		_, makeErr := partitions.MakeAhead(t.Context(), db, 30)
		_, dropErr := partitions.DropExpired(t.Context(), db, month)
		_, trimErr := partitions.TrimDefault(t.Context(), db, month)
		for _, err := range []error{makeErr, dropErr, trimErr} {
			if err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s: %v, want to be refused", role, err)
			}
		}
	}
	for _, sql := range []string{
		"drop table inbox_payload_default", "delete from inbox_payload", "create table t (i int)",
		"alter table inbox_payload detach partition inbox_payload_default", "select body from inbox_payload",
		"update inbox set state = 'processed'", "delete from submitted_tasks",
	} {
		if _, err := keeper.Exec(t.Context(), sql); err == nil {
			t.Errorf("the reconciler's role may %q", sql)
		}
	}
}

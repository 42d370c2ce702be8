package tasks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/tasks"
)

// submitted registers a task as if so long ago and returns its row's id.
func submitted(t *testing.T, db *pgxpool.Pool, taskID string, ago time.Duration) int64 {
	t.Helper()
	return scalar[int64](t, db, "insert into submitted_tasks (task_id, created_at) values ($1, now() - $2::interval) returning id", taskID, ago)
}

// arrive puts a result into the inbox.
func arrive(t *testing.T, db *pgxpool.Pool, taskID string) {
	t.Helper()
	exec(t, db, "insert into inbox (source, event_key, body_hash, next_attempt_at) values ('answers', $1, '', now())", taskID)
}

func TestSettleWhatHasComeHoweverItWasRegistered(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	arrive(t, super, "came first")
	submitted(t, super, "came first", 0)
	submitted(t, super, "registered first", 0)
	submitted(t, super, "not come", time.Hour)
	arrive(t, super, "registered first")
	exec(t, super, "insert into inbox (source, event_key, body_hash, state, last_error) values ('answers', 'quarantined', '', 'quarantined', 'why')")
	submitted(t, super, "quarantined", 0)
	exec(t, super, "insert into submitted_tasks (source, task_id) values ('other', 'came first')")
	if n, err := tasks.Settle(t.Context(), db, "answers"); err != nil || n != 3 {
		t.Errorf("settled %d, %v; want 3", n, err)
	}
	if n, err := tasks.Settle(t.Context(), db, "answers"); err != nil || n != 0 {
		t.Errorf("settled %d again, %v", n, err)
	}
	if got := scalar[string](t, super, "select string_agg(source || '/' || task_id, ' ' order by id) from submitted_tasks where settled_at is null"); got != "answers/not come other/came first" {
		t.Errorf("open are %s", got)
	}
}

// TestSettleLeavesRowsInHandToOthers has a processor hold a row that it settles.
func TestSettleLeavesRowsInHandToOthers(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	for _, id := range []string{"a", "b"} {
		submitted(t, super, id, time.Hour)
		arrive(t, super, id)
	}
	tx, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "update submitted_tasks set settled_at = now() where task_id = 'a'"); err != nil {
		t.Fatal(err)
	}
	if n, err := tasks.Settle(t.Context(), db, "answers"); err != nil || n != 1 {
		t.Errorf("settled %d, %v; want 1 and no waiting", n, err)
	}
	if flagged, err := tasks.Flag(t.Context(), db, "answers", time.Minute, 10); err != nil || len(flagged) != 0 {
		t.Errorf("flagged %v, %v", flagged, err)
	}
}

func TestFlagOnceTheOldestFirst(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	exec(t, super, `insert into submitted_tasks (task_id, idempotency_key, created_at, settled_at) values
('t1', null, now() - interval '6 hours', null), (null, 'k2', now() - interval '7 hours', null), ('t3', 'k3', now() - interval '4 hours', null),
('t4', null, now() - interval '9 hours', now())`)
	for _, want := range []tasks.Named{{IdempotencyKey: "k2"}, {TaskID: "t1"}, {}} {
		flagged, err := tasks.Flag(t.Context(), db, "answers", 5*time.Hour, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := tasks.Named{}
		if len(flagged) > 0 {
			got = flagged[0]
		}
		if got.ID = 0; got != want {
			t.Errorf("flagged %+v, want %+v", flagged, want)
		}
	}
	counts, err := tasks.Count(t.Context(), db, "answers", time.Hour, 5*time.Hour)
	if want := (tasks.Counts{Open: 3, Overdue: 2, PastHorizon: 2}); err != nil || counts != want {
		t.Errorf("counted %+v, %v; want %+v", counts, err, want)
	}
}

// handOut hands out what has been open for an hour, and returns it by task id.
func handOut(t *testing.T, db *pgxpool.Pool, limit, atATime int) map[string]int64 {
	t.Helper()
	due, err := tasks.HandOut(t.Context(), db, tasks.HandOutLimits{Source: "answers", After: time.Hour, Limit: limit, AtATime: atATime, Again: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]int64)
	for _, task := range due {
		ids[task.TaskID] = task.ID
	}
	return ids
}

func TestHandOutIsInTurnAndBounded(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	submitted(t, super, "too young", 59*time.Minute)
	oldest, second := submitted(t, super, "oldest", 3*time.Hour), submitted(t, super, "second", 2*time.Hour)
	exec(t, super, "insert into submitted_tasks (idempotency_key, created_at) values ('without an id', now() - interval '5 hours')")
	exec(t, super, "insert into submitted_tasks (task_id, created_at, next_poll_at) values ('not its turn', now() - interval '5 hours', now() + interval '1 minute'), ('its turn', now() - interval '5 hours', now() - interval '150 minutes')")
	exec(t, super, "insert into submitted_tasks (task_id, created_at, settled_at) values ('settled', now() - interval '5 hours', now())")
	exec(t, super, "insert into submitted_tasks (source, task_id, created_at) values ('other', 'theirs', now() - interval '5 hours')")
	submitted(t, super, "arrived", 62*time.Minute)
	arrive(t, super, "arrived")
	if got := handOut(t, db, 2, 100); len(got) != 2 || got["oldest"] != oldest || got["its turn"] == 0 {
		t.Errorf("first %v", got)
	}
	if got := handOut(t, db, 2, 2); len(got) != 0 {
		t.Errorf("while as many as may be are handed out: %v", got)
	}
	if got := handOut(t, db, 2, 3); len(got) != 1 || got["second"] != second {
		t.Errorf("then %v", got)
	}
	if got := handOut(t, db, 2, 100); len(got) != 0 {
		t.Errorf("handed out already, or not due: %v", got)
	}
	// A request that was lost is made again, and takes nobody's place till then.
	exec(t, super, "update submitted_tasks set next_poll_at = next_poll_at - interval '61 seconds' where task_id = 'oldest'")
	if err := tasks.Pause(t.Context(), db, "answers", time.Minute, "429"); err != nil {
		t.Fatal(err)
	}
	if got := handOut(t, db, 2, 100); len(got) != 0 {
		t.Errorf("during a pause: %v", got)
	}
	exec(t, super, "update poll_limits set paused_until = now()")
	if got := handOut(t, db, 2, 3); len(got) != 1 || got["oldest"] != oldest {
		t.Errorf("after a lost request: %v", got)
	}
}

func TestTwoLeadersHandOutNothingTwice(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	exec(t, super, "insert into submitted_tasks (task_id, created_at) select 't' || n, now() - interval '2 hours' from generate_series(1, 300) n")
	var lock sync.Mutex
	seen := make(map[int64]int)
	var leaders sync.WaitGroup
	for range 4 {
		leaders.Go(func() {
			for empty := 0; empty < 3; {
				due, err := tasks.HandOut(context.Background(), db, tasks.HandOutLimits{Source: "answers", After: time.Hour, Limit: 7, AtATime: 1000, Again: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				if len(due) == 0 {
					empty++ // all rows in reach may have been another's at the moment
				}
				lock.Lock()
				for _, task := range due {
					seen[task.ID]++
				}
				lock.Unlock()
			}
		})
	}
	leaders.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("row %d was handed out %d times", id, times)
		}
	}
	if left := handOut(t, db, 300, 1000); len(seen)+len(left) != 300 {
		t.Errorf("%d and %d were handed out of 300", len(seen), len(left))
	}
}

func TestAHandOutIsClaimedOnceAndWhileItIsOfUse(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	claim := func(id int64, want bool, when string) {
		t.Helper()
		if got, err := tasks.Claim(t.Context(), db, id); err != nil || got != want {
			t.Errorf("claimed %s: %v, %v; want %v", when, got, err, want)
		}
	}
	handedOut := func(name string) int64 {
		t.Helper()
		id := submitted(t, super, name, 2*time.Hour)
		if got := handOut(t, db, 1, 100); got[name] != id {
			t.Fatalf("handed out %v, want %s", got, name)
		}
		return id
	}
	id := handedOut("usual")
	claim(id, true, "in time")
	claim(id, false, "twice")
	if _, _, err := tasks.Polled(t.Context(), db, tasks.Poll{ID: id, Next: time.Hour, Rare: time.Hour}); err != nil {
		t.Fatal(err)
	}
	claim(id, false, "after its poll")

	late := handedOut("late")
	exec(t, super, "update submitted_tasks set next_poll_at = now() where id = $1", late)
	claim(late, false, "too late")
	exec(t, super, "update submitted_tasks set settled_at = now() where id = $1", late)
	arrived := handedOut("arrived")
	arrive(t, super, "arrived")
	claim(arrived, false, "when its result had come")
	deleted := handedOut("deleted")
	exec(t, super, "delete from submitted_tasks where id = $1", deleted)
	claim(deleted, false, "when an operator had deleted it")

	paused := handedOut("paused")
	if err := tasks.Pause(t.Context(), db, "answers", time.Minute, "429"); err != nil {
		t.Fatal(err)
	}
	claim(paused, false, "during a pause")
	exec(t, super, "update poll_limits set paused_until = now()")
	if err := tasks.GiveBack(t.Context(), db, paused); err != nil {
		t.Fatal(err)
	}
	claim(paused, false, "when it was given back")
	if got := handOut(t, db, 1, 100); got["paused"] != paused {
		t.Errorf("after it was given back, handed out is %v", got)
	}
	claim(paused, true, "when it was handed out again")
	if err := tasks.GiveBack(t.Context(), db, paused); err != nil { // too late
		t.Fatal(err)
	}
	if got := handOut(t, db, 1, 100); len(got) != 0 {
		t.Errorf("while its poll is under way, handed out is %v", got)
	}
}

func TestPolled(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	const next, rare, horizon = 5 * time.Minute, 6 * time.Hour, 5 * time.Hour
	for _, c := range []struct {
		name     string
		age      time.Duration
		before   int // polls
		poll     tasks.Poll
		from, to time.Duration
		settled  bool
	}{
		{"an answer", time.Hour, 3, tasks.Poll{Next: next, Rare: rare, Horizon: horizon}, next, next, false},
		{"an answer past the horizon", 6 * time.Hour, 3, tasks.Poll{Next: next, Rare: rare, Horizon: horizon}, rare, rare, false},
		{"a first error", time.Hour, 0, tasks.Poll{Next: next, Rare: rare, Horizon: horizon, BackOff: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second, false},
		{"a fourth error", time.Hour, 3, tasks.Poll{Next: next, Rare: rare, Horizon: horizon, BackOff: 5 * time.Second}, 20 * time.Second, 40 * time.Second, false},
		{"yet another error", time.Hour, 1000, tasks.Poll{Next: next, Rare: rare, Horizon: horizon, BackOff: 5 * time.Second}, next / 2, next, false},
		{"a first error past the horizon", 6 * time.Hour, 0, tasks.Poll{Next: next, Rare: rare, Horizon: horizon, BackOff: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second, false},
		{"yet another past the horizon", 6 * time.Hour, 1000, tasks.Poll{Next: next, Rare: rare, Horizon: horizon, BackOff: 5 * time.Second}, rare / 2, rare, false},
		{"the result", time.Hour, 0, tasks.Poll{Settled: true}, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := submitted(t, super, c.name, c.age)
			exec(t, super, "update submitted_tasks set polls = $2, next_poll_at = now() where id = $1", id, c.before)
			c.poll.ID, c.poll.Result = id, "said\nso\x00"
			polls, wait, err := tasks.Polled(t.Context(), db, c.poll)
			if err != nil || polls != c.before+1 || wait < c.from || wait > c.to {
				t.Errorf("got %d, %s, %v; want %d, %s to %s", polls, wait, err, c.before+1, c.from, c.to)
			}
			if !scalar[bool](t, super, "select last_poll_result = 'said so ' and last_polled_at is not null and (settled_at is not null) = $2 and (next_poll_at is null) = $2 from submitted_tasks where id = $1", id, c.settled) {
				t.Error("it is not written down so")
			}
		})
	}
	if polls, _, err := tasks.Polled(t.Context(), db, tasks.Poll{ID: -1}); err != nil || polls != 0 {
		t.Errorf("a row that was deleted: %d, %v", polls, err)
	}
}

func TestSlotsAreSpacedWhoeverTakesThem(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	const apart = time.Minute // far longer than the test
	take := func(ahead time.Duration) (time.Duration, bool) {
		t.Helper()
		wait, taken, err := tasks.TakeSlot(t.Context(), db, "answers", apart, ahead)
		if err != nil {
			t.Fatal(err)
		}
		return wait, taken
	}
	for n := range 3 {
		want := time.Duration(n) * apart
		if wait, taken := take(time.Hour); !taken || wait > want || wait < want-30*time.Second {
			t.Errorf("slot %d: %s, %v; want some %s", n, wait, taken, want)
		}
	}
	for range 3 { // one that is too far ahead is not used up
		if wait, taken := take(2 * time.Minute); taken {
			t.Errorf("took a slot in %s", wait)
		}
	}
	if wait, taken := take(time.Hour); !taken || wait > 3*apart {
		t.Errorf("then %s, %v; want the slot after those taken", wait, taken)
	}
	if err := tasks.Pause(t.Context(), db, "answers", time.Hour, "429"); err != nil {
		t.Fatal(err)
	}
	if _, taken := take(24 * time.Hour); taken {
		t.Error("took a slot during a pause")
	}
	if wait, taken, err := tasks.TakeSlot(t.Context(), db, "other", apart, 0); err != nil || !taken || wait > 0 {
		t.Errorf("of another source: %s, %v, %v", wait, taken, err)
	}
}

func TestAPauseIsNeverShortenedButMayBeEnded(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	for _, c := range []struct {
		pause  time.Duration
		reason string
		want   string
	}{
		{time.Minute, "429", "429 1"},
		{time.Hour, "401 UNAUTHORIZED", "401 UNAUTHORIZED 60"},
		{time.Minute, "429", "401 UNAUTHORIZED 60"},
	} {
		if err := tasks.Pause(t.Context(), db, "answers", c.pause, c.reason); err != nil {
			t.Fatal(err)
		}
		if got := scalar[string](t, super, "select pause_reason || ' ' || round(extract(epoch from paused_until - now()) / 60) from poll_limits"); got != c.want {
			t.Errorf("%s for %s: %s, want %s", c.reason, c.pause, got, c.want)
		}
	}
	for _, c := range []struct {
		reason string
		ended  bool
	}{{"429", false}, {"UNAUTHORIZED", false}, {"401", true}, {"401", false}} {
		if ended, err := tasks.EndPause(t.Context(), db, "answers", []string{"4", c.reason}); err != nil || ended != c.ended {
			t.Errorf("a pause for %s has ended: %v, %v", c.reason, ended, err)
		}
	}
	if left := scalar[bool](t, super, "select paused_until > clock_timestamp() from poll_limits"); left {
		t.Error("the pause goes on")
	}
}

// messages registers messages of source mail as if an hour ago.
func messages(t *testing.T, db *pgxpool.Pool, final bool, ids ...string) {
	t.Helper()
	exec(t, db, `insert into messages (source, message_id, final, registered_at)
select 'mail', id, $1, now() - interval '1 hour' - n * interval '1 second' from unnest($2::text[]) with ordinality as t(id, n)`, final, ids)
}

func TestMessagesAreEnrolledOnceTheOldestFirst(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	messages(t, super, false, "young", "older", "oldest")
	messages(t, super, true, "final")
	exec(t, super, "insert into messages (source, message_id, registered_at) values ('mail', 'too young', now() - interval '59 minutes'), ('other', 'theirs', now() - interval '9 hours')")
	for _, want := range []int64{2, 1, 0} {
		if n, err := tasks.Enrol(t.Context(), db, "mail", time.Hour, 2); err != nil || n != want {
			t.Errorf("enrolled %d, %v; want %d", n, err, want)
		}
		if want == 2 && scalar[string](t, super, "select string_agg(task_id, ' ' order by task_id) from submitted_tasks") != "older oldest" {
			t.Error("those enrolled first are not the oldest")
		}
	}
	if n := scalar[int](t, super, "select count(*) from submitted_tasks s join messages m on m.source = s.source and m.message_id = s.task_id and m.registered_at = s.created_at"); n != 3 {
		t.Errorf("%d of 3 are as old as their message", n)
	}
	due, err := tasks.HandOut(t.Context(), db, tasks.HandOutLimits{Source: "mail", After: time.Hour, Limit: 9, AtATime: 9, Again: time.Minute})
	if err != nil || len(due) != 3 {
		t.Errorf("handed out %v, %v", due, err)
	}
}

// TestTwoLeadersEnrolNothingTwice has several enrol at once.
func TestTwoLeadersEnrolNothingTwice(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	exec(t, super, "insert into messages (source, message_id, registered_at) select 'mail', 'm' || n, now() - interval '2 hours' from generate_series(1, 500) n")
	var leaders sync.WaitGroup
	for range 4 {
		leaders.Go(func() {
			for empty := 0; empty < 3; {
				n, err := tasks.Enrol(context.Background(), db, "mail", time.Hour, 50)
				if err != nil {
					t.Error(err)
					return
				}
				if n == 0 {
					empty++ // another may have been faster with all in reach
				}
			}
		})
	}
	leaders.Wait()
	left, err := tasks.Enrol(t.Context(), db, "mail", time.Hour, 500)
	if n := scalar[int64](t, super, "select count(*) from submitted_tasks"); err != nil || n != 500 {
		t.Errorf("%d are enrolled, %d of them in the end, %v; want 500", n, left, err)
	}
}

// TestMessagesAreSettledByAFinalStatus changes messages that are handed out.
func TestMessagesAreSettledByAFinalStatus(t *testing.T) {
	t.Parallel()
	super, db := database(t)
	messages(t, super, false, "opened", "sent", "deleted")
	if _, err := tasks.Enrol(t.Context(), db, "mail", time.Hour, 9); err != nil {
		t.Fatal(err)
	}
	exec(t, super, "insert into submitted_tasks (task_id) values ('answers have no messages')")
	handOut := func() []tasks.Overdue {
		t.Helper()
		due, err := tasks.HandOut(t.Context(), db, tasks.HandOutLimits{Source: "mail", After: time.Hour, Limit: 9, AtATime: 9, Again: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return due
	}
	due := handOut()
	exec(t, super, "update messages set final = true where message_id = 'opened'")
	exec(t, super, "delete from messages where message_id = 'deleted'")
	for _, task := range due {
		if mine, err := tasks.Claim(t.Context(), db, task.ID); err != nil || mine != (task.TaskID != "opened") {
			t.Errorf("claimed %s: %v, %v", task.TaskID, mine, err)
		}
	}
	exec(t, super, "update submitted_tasks set handed_out_at = null, next_poll_at = now()")
	exec(t, super, "update submitted_tasks set next_poll_at = null where task_id = 'opened'")
	for _, task := range handOut() {
		if task.TaskID == "opened" {
			t.Error("a message with a final status is handed out")
		}
	}
	if n, err := tasks.SettleMessages(t.Context(), db, "mail"); err != nil || n != 2 {
		t.Errorf("settled %d, %v; want 2", n, err)
	}
	if open := scalar[string](t, super, "select string_agg(task_id, ',' order by id) from submitted_tasks where settled_at is null"); open != "sent,answers have no messages" {
		t.Errorf("open are %s", open)
	}
	if n, err := tasks.Enrol(t.Context(), db, "mail", time.Hour, 9); err != nil || n != 0 {
		t.Errorf("enrolled %d again, %v", n, err)
	}
}

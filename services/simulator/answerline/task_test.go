package answerline

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// delivered collects what a set of tasks hands over.
type delivered []delivery.Subject

func (d *delivered) add(s delivery.Subject) string {
	*d = append(*d, s)
	return "wh_" + s.ID()
}

func newTestTasks(change func(*Config)) (*Tasks, *delivered) {
	cfg := Config{TimeScale: 1, MaxTasks: 1000, ResultBytes: 1700, Seed: 1}
	if change != nil {
		change(&cfg)
	}
	d := new(delivered)
	return NewTasks(cfg, d.add), d
}

func text(s string) *string { return &s }

func TestABodyIsTheSameWhereverItIsShown(t *testing.T) {
	t.Parallel()
	tasks, sent := newTestTasks(nil)
	made, err := tasks.Make(Exact{IdempotencyKey: text("job <1> & \"q\"")})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := tasks.Show(made.ID)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := tasks.Show(made.ID)
	if !bytes.Equal(shown, (*sent)[0].Body()) || !bytes.Equal(shown, again) || made.DeliveryID != "wh_"+made.ID {
		t.Error("the API and the delivery do not show the same bytes")
	}
	if len(shown) < 1900 || len(shown) > 2300 {
		t.Errorf("the body has %d bytes, want about 2 KB", len(shown))
	}
	var body struct {
		Task    Task
		Credits struct{ CreditsToCharge, CreditsCharged int }
		// Response has the result's text.
		Response struct{ Result struct{ Text string } }
	}
	if err := json.Unmarshal(shown, &body); err != nil {
		t.Fatal(err)
	}
	if body.Task.ID != made.ID || body.Task.Status != Completed || *body.Task.IdempotencyKey != "job <1> & \"q\"" ||
		body.Credits.CreditsCharged != 3 || body.Credits.CreditsToCharge != 3 || len(body.Response.Result.Text) < 1700 {
		t.Errorf("the body says %+v", body)
	}
	other, _ := tasks.Make(Exact{})
	if b, _ := tasks.Show(other.ID); bytes.Contains(b, []byte(body.Response.Result.Text)) {
		t.Error("two tasks have the same answer")
	}
}

func TestExactTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exact Exact
		want  string // in the body
	}{
		"raw response":     {Exact{Response: json.RawMessage(`{ "b":1e2,"a" : "<é\u0000` + "\xff" + `>", "a":-0}`)}, `"response":{ "b":1e2,"a" : "<é\u0000` + "\xff" + `>", "a":-0}}`},
		"null response":    {Exact{Response: json.RawMessage(`null`), Status: Failed}, `"creditsCharged":0},"response":null}`},
		"failed":           {Exact{Status: Failed}, `"response":{"error":{"code":"ENGINE_ERROR",`},
		"createdAt":        {Exact{CreatedAt: text("not a date")}, `"createdAt":"not a date"`},
		"no key":           {Exact{}, `"idempotencyKey":null}`},
		"priority, type":   {Exact{Priority: 7, TaskType: "GEMINI"}, `"taskType":"GEMINI","status":"COMPLETED","priority":7,`},
		"the whole text":   {Exact{Text: "{not json\r\n"}, "{not json\r\n"},
		"the whole body":   {Exact{Body: []byte("\x00\xff")}, "\x00\xff"},
		"an id of its own": {Exact{ID: "a/b%20\"c"}, `{"task":{"id":"a/b%20\"c",`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks, sent := newTestTasks(nil)
			made, err := tasks.Make(c.exact)
			if err != nil {
				t.Fatal(err)
			}
			body := string((*sent)[0].Body())
			if !strings.Contains(body, c.want) {
				t.Errorf("the body %q lacks %q", body, c.want)
			}
			if shown, _ := tasks.Show(made.ID); string(shown) != body {
				t.Error("the API shows something else")
			}
		})
	}
}

func TestResultBytes(t *testing.T) {
	t.Parallel()
	tasks, sent := newTestTasks(nil)
	if _, err := tasks.Make(Exact{ResultBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if n := len((*sent)[0].Body()); n < 1<<20 || n > 1<<20+500 {
		t.Errorf("the body has %d bytes, want 1 MiB and a little", n)
	}
}

func TestHoldMoveFinishDeliver(t *testing.T) {
	t.Parallel()
	tasks, sent := newTestTasks(nil)
	check := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	made, err := tasks.Make(Exact{ID: "t1", Hold: true})
	check(err, nil)
	if made.Status != Queued || made.DeliveryID != "" {
		t.Errorf("held: %+v", made)
	}
	_, err = tasks.Make(Exact{ID: "t1"})
	check(err, ErrExists)
	_, err = tasks.Make(Exact{Status: "DONE"})
	check(err, ErrStatus)
	_, err = tasks.Deliver("t1")
	check(err, ErrNotFinal)
	for _, status := range []string{Processing, Queued, Processing} {
		moved, err := tasks.Move("t1", status)
		check(err, nil)
		if shown, _ := tasks.Show("t1"); moved.Status != status || !bytes.Contains(shown, []byte(status)) || bytes.Contains(shown, []byte("response")) {
			t.Errorf("moved to %s: %s", status, shown)
		}
	}
	_, err = tasks.Move("t1", Completed)
	check(err, ErrStatus)
	_, err = tasks.Finish("t1", Queued, nil)
	check(err, ErrStatus)
	made, err = tasks.Finish("t1", Failed, json.RawMessage(`"because"`))
	check(err, nil)
	if made.DeliveryID != "wh_t1" || len(*sent) != 1 {
		t.Errorf("finished: %+v", made)
	}
	_, err = tasks.Finish("t1", Completed, nil)
	check(err, ErrFinal)
	_, err = tasks.Move("t1", Queued)
	check(err, ErrFinal)
	_, err = tasks.Deliver("t1")
	check(err, nil)
	_, err = tasks.Make(Exact{ID: "t2", NoDelivery: true})
	check(err, nil)
	if len(*sent) != 2 {
		t.Errorf("%d deliveries, want 2", len(*sent))
	}
	_, err = tasks.Finish("t3", Completed, nil)
	check(err, ErrUnknown)
	if c := tasks.Counts(); c != (Counts{Completed: 1, Failed: 1}) {
		t.Errorf("the counts are %+v", c)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	tasks, sent := newTestTasks(func(c *Config) { c.MaxTasks = 3 })
	for _, id := range []string{"a", "b", "c", "d"} {
		if _, err := tasks.Make(Exact{ID: id, IdempotencyKey: text(id)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tasks.Show("a"); !errors.Is(err, ErrUnknown) || (*sent)[0].Kept() || !(*sent)[1].Kept() {
		t.Errorf("the oldest is still there: %v", err)
	}
	if c := tasks.Counts(); c.Completed != 4 || c.Forgotten != 1 {
		t.Errorf("the counts are %+v", c)
	}
	for range 3 {
		if _, err := tasks.Create(Request{TaskType: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tasks.Create(Request{TaskType: "x"}); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth unfinished task: %v", err)
	}
	if _, err := tasks.Create(Request{TaskType: "x", IdempotencyKey: text("d")}); !errors.Is(err, ErrConflict) {
		t.Errorf("a key in use: %v", err)
	}
}

func TestAKeyIsForgottenWithItsOwnTaskOnly(t *testing.T) {
	t.Parallel()
	tasks, _ := newTestTasks(nil)
	for _, id := range []string{"a", "b"} { // tasks made by hand may share a key
		if _, err := tasks.Make(Exact{ID: id, IdempotencyKey: text("k"), Hold: id == "b"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := tasks.CancelQueued(); n != 1 {
		t.Errorf("%d removed, want 1", n)
	}
	if _, err := tasks.Create(Request{TaskType: "x", IdempotencyKey: text("k")}); !errors.Is(err, ErrConflict) {
		t.Errorf("the key of a task that is kept can be used again: %v", err)
	}
}

package koltrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// arrived is an event as its delivery tells it.
type arrived struct {
	after time.Duration // since the test began
	Event
}

// letters collects what a set of messages hands over.
type letters struct {
	began time.Time
	mu    sync.Mutex
	list  []arrived
}

func (l *letters) add(s delivery.Subject) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := arrived{after: time.Since(l.began)}
	_ = json.Unmarshal(s.Body(), &a.Event)
	l.list = append(l.list, a)
	return fmt.Sprint("wh_", len(l.list))
}

func (l *letters) all() []arrived {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// newTestMessages returns a set that does not move by itself.
func newTestMessages(change func(*Config)) (*Messages, *letters) {
	cfg := Config{TimeScale: 1, Step: 2 * time.Second, Keep: time.Hour, MaxMessages: 1000, Seed: 1}
	if change != nil {
		change(&cfg)
	}
	l := &letters{began: time.Now()}
	return NewMessages(cfg, l.add), l
}

// live runs a set of messages in a bubble.
func live(t *testing.T, change func(*Config)) (*Messages, *letters) {
	messages, l := newTestMessages(change)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { messages.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return messages, l
}

func create(t *testing.T, messages *Messages, to ...string) Message {
	t.Helper()
	m, err := messages.Create(Request{To: to, From: "a@sender.example", Subject: "News", Category: "news"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLife(t *testing.T) {
	for name, scale := range map[string]float64{"real time": 1, "an hour a minute": 60, "as fast as it goes": 1e6} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				messages, l := live(t, func(c *Config) { c.TimeScale = scale; c.Keep = time.Duration(scale) * time.Hour })
				messages.SetChances(Chances{Open: 1, Click: 1, Complain: 1})
				m := create(t, messages, "r@example.com")
				if m.Status != "queued" || m.Timestamp != time.Now().Unix() || m.To != "r@example.com" || messages.Counts().Living != 1 {
					t.Errorf("created: %+v", m)
				}
				time.Sleep(30 * time.Minute)
				got := l.all()
				var types []string
				for n, a := range got {
					types = append(types, a.Type)
					if n > 0 && a.Timestamp < got[n-1].Timestamp {
						t.Errorf("%s has timestamp %d, after %d", a.Type, a.Timestamp, got[n-1].Timestamp)
					}
					if at := l.began.Add(a.after).Unix(); a.Timestamp != at {
						t.Errorf("%s happened at %d by its timestamp, at %d by the clock", a.Type, a.Timestamp, at)
					}
					if want := (Event{a.Type, a.Timestamp, m.ID, "r@example.com", "a@sender.example", "News", "news"}); a.Event != want {
						t.Errorf("delivered %+v, want %+v", a.Event, want)
					}
				}
				if !slices.Equal(types, []string{Sent, Delivered, Opened, Clicked, Complained}) {
					t.Fatalf("its life was %v", types)
				}
				last := got[4]
				if least, most := 2*time.Second, 10*time.Second; last.after < time.Duration(float64(least)/scale) || last.after > time.Duration(float64(most)/scale) {
					t.Errorf("it was over after %s", last.after)
				}
				if shown, err := messages.Show(m.ID); err != nil || shown.Status != "complained" || shown.Timestamp != last.Timestamp {
					t.Errorf("shown: %+v, %v", shown, err)
				}
				if c := messages.Counts(); c.Living != 0 || c.Ended != 1 || c.Events[Opened] != 1 || len(c.Events) != 5 {
					t.Errorf("the counts are %+v", c)
				}
				time.Sleep(time.Hour)
				if _, err := messages.Show(m.ID); !errors.Is(err, ErrUnknown) || messages.Counts().Forgotten != 1 {
					t.Errorf("after its keep time it is still there: %v", err)
				}
			})
		})
	}
}

// TestLivesRepeatWithTheSeed compares two sets, but for the ids.
func TestLivesRepeatWithTheSeed(t *testing.T) {
	lives := func(seed uint64) (list []arrived) {
		synctest.Test(t, func(t *testing.T) {
			messages, l := live(t, func(c *Config) { c.Seed = seed })
			for range 50 {
				if _, err := messages.Create(Request{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour / 2)
			list = l.all()
			for n := range list {
				list[n].MessageID = ""
			}
		})
		return list
	}
	if one := lives(1); len(one) < 150 || !slices.Equal(one, lives(1)) || slices.Equal(one, lives(2)) {
		t.Errorf("%d events, which do not repeat with the seed alone", len(one))
	}
}

// TestEventsAreToldApart lets everything happen at once: a type, a recipient and
// a second are an event's identity.
func TestEventsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages, l := live(t, func(c *Config) { c.TimeScale = 1e6 })
		messages.SetChances(Chances{Open: 1, Reopen: .9, Click: .9})
		create(t, messages, "a", "b", "c")
		time.Sleep(time.Second)
		seen, latest := make(map[Event]bool), int64(0)
		for _, a := range l.all() {
			if seen[a.Event] || a.Timestamp < latest {
				t.Errorf("%+v is told twice, or after %d", a.Event, latest)
			}
			seen[a.Event], latest = true, a.Timestamp
		}
		if len(seen) < 12 {
			t.Errorf("there are %d events", len(seen))
		}
	})
}

func TestStatusByPrecedence(t *testing.T) {
	t.Parallel()
	at := time.Now().Unix()
	step := func(event string, second int64) Step {
		return Step{Event: event, To: event + "@x", Timestamp: at + second}
	}
	for name, c := range map[string]struct {
		steps  []Step
		status string
		second int64
	}{
		"nothing":                 {nil, "queued", 0},
		"in order":                {[]Step{step("sent", 1), step("delivered", 2), step("opened", 3), step("clicked", 4)}, "clicked", 4},
		"bounced before sent":     {[]Step{step("bounced", 2), step("sent", 1)}, "bounced", 2},
		"opened after complained": {[]Step{step("complained", 1), step("opened", 2)}, "complained", 1},
		"unsubscribed, clicked":   {[]Step{step("unsubscribed", 1), step("clicked", 2)}, "unsubscribed", 1},
		"the earlier of equals":   {[]Step{step("opened", 5), step("opened", 3), step("opened", 4)}, "opened", 3},
		"an unknown type":         {[]Step{step("sent", 1), step("message.snoozed", 2), step("other", 3)}, "sent", 1},
	} {
		messages, _ := newTestMessages(nil)
		if c.steps == nil {
			c.steps = []Step{}
		}
		made, err := messages.Make(Exact{ID: "m", Request: Request{To: Recipients{"first@x"}}, History: c.steps})
		if err != nil {
			t.Fatal(err)
		}
		to := c.status + "@x"
		if c.status == "queued" {
			to, c.second = "first@x", made.Timestamp-at
		}
		if shown, _ := messages.Show("m"); shown.Status != c.status || shown.Timestamp != at+c.second || shown.To != to || shown != made.Message {
			t.Errorf("%s: %+v, want %s of second %d", name, shown, c.status, c.second)
		}
	}
}

func TestMakeAtOnce(t *testing.T) {
	t.Parallel()
	messages, l := newTestMessages(nil)
	now := time.Now().Unix()
	made, err := messages.Make(Exact{ID: "m/1", History: []Step{{Event: "sent"}, {Event: "delivered"}, {Event: "bounced", NoDelivery: true}}})
	if err != nil || made.Status != "bounced" || len(made.Events) != 2 || made.Events[1].DeliveryID != "wh_2" {
		t.Fatalf("made %+v, %v", made, err)
	}
	got := l.all()
	if len(got) != 2 || got[0].Type != Sent || got[1].Type != Delivered || got[1].Timestamp != got[0].Timestamp+1 || made.Timestamp != got[1].Timestamp+1 || made.Timestamp < now {
		t.Errorf("delivered %+v of %+v", got, made)
	}
	if _, err := messages.Make(Exact{ID: "m/1"}); !errors.Is(err, ErrExists) {
		t.Errorf("the id again: %v", err)
	}
	if _, err := messages.Make(Exact{History: []Step{{To: "x"}}}); !errors.Is(err, ErrNoEvent) {
		t.Errorf("a step without an event: %v", err)
	}
	plausible, err := messages.Make(Exact{})
	if err != nil || len(plausible.Events) < 2 || plausible.Status == "queued" || plausible.Timestamp > time.Now().Unix() || !strings.HasPrefix(plausible.ID, "msg_") {
		t.Errorf("made up: %+v, %v", plausible, err)
	}
	quiet, err := messages.Make(Exact{NoDelivery: true, History: []Step{{Event: "bounced"}}})
	if err != nil || quiet.Status != "bounced" || len(quiet.Events) != 0 || len(l.all()) != 2+len(plausible.Events) {
		t.Errorf("of which nothing is told: %+v, %v", quiet, err)
	}
	if c := messages.Counts(); c.Ended != 3 || c.Living != 0 || c.Events[Bounced] < 2 {
		t.Errorf("the counts are %+v", c)
	}
}

func TestEmit(t *testing.T) {
	t.Parallel()
	messages, l := newTestMessages(nil)
	m := create(t, messages, "a", "b")
	for _, step := range []Step{{Event: "opened"}, {Event: "opened"}, {Event: "opened", To: "b"}, {Event: "complained", NoDelivery: true}, {Event: "x.y", Timestamp: 5}} {
		if _, err := messages.Emit(m.ID, step); err != nil {
			t.Fatal(err)
		}
	}
	got := l.all()
	if len(got) != 4 || got[1].Timestamp <= got[0].Timestamp || got[2].To != "b" || got[3].Type != "x.y" || got[3].Timestamp != 5 {
		t.Errorf("delivered %+v", got)
	}
	if shown, _ := messages.Show(m.ID); shown.Status != "complained" {
		t.Errorf("shown %+v", shown)
	}
	if _, err := messages.Emit("m", Step{Event: "sent"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an event of nothing: %v", err)
	}
	if _, err := messages.Emit(m.ID, Step{}); !errors.Is(err, ErrNoEvent) {
		t.Errorf("no event: %v", err)
	}
}

func TestLiveHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages, l := live(t, nil)
		if _, err := messages.Make(Exact{Live: true, History: []Step{{Event: "sent"}, {Event: "opened", NoDelivery: true}, {Event: "clicked"}}}); err != nil {
			t.Fatal(err)
		}
		if len(l.all()) != 0 {
			t.Errorf("at once: %+v", l.all())
		}
		time.Sleep(time.Minute)
		if got := l.all(); len(got) != 2 || got[0].after != 2*time.Second || got[1].after != 6*time.Second || got[1].Type != Clicked {
			t.Errorf("delivered %+v", got)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	messages, _ := newTestMessages(func(c *Config) { c.MaxMessages = 3 })
	for n := range 4 {
		if _, err := messages.Make(Exact{ID: fmt.Sprint(n), History: []Step{}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := messages.Show("0"); !errors.Is(err, ErrUnknown) || messages.Counts().Forgotten != 1 {
		t.Errorf("the oldest is still there: %v", err)
	}
	for range 3 {
		create(t, messages, "a")
	}
	if _, err := messages.Create(Request{}); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth living message: %v", err)
	}
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages, l := live(t, nil)
		create(t, messages, "a")
		messages.SetChances(Chances{})
		messages.Reset()
		time.Sleep(time.Minute)
		if c := messages.Counts(); len(l.all()) != 0 || c.Living != 0 || messages.Chances() != Usual {
			t.Errorf("after a reset: %v, %+v", l.all(), c)
		}
	})
}

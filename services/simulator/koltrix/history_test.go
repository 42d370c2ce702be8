package koltrix

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func plan(recipients []string, c Chances, seed uint64) []planned {
	return plausible(recipients, c, 2*time.Second, rand.New(rand.NewPCG(seed, 1)))
}

// before are the events that must have happened to a recipient before another.
var before = map[string][]string{
	Sent: nil, Delivered: {Sent}, Bounced: {Sent}, Opened: {Sent, Delivered}, Clicked: {Opened}, Unsubscribed: {Opened}, Complained: {Opened},
}

func TestHistoriesArePlausible(t *testing.T) {
	t.Parallel()
	recipients := []string{"a", "b", "c"}
	total := make(map[string]int)
	for seed := range uint64(2000) {
		happened := make(map[string][]string) // to each recipient
		latest := time.Duration(0)
		for _, p := range plan(recipients, Usual, seed) {
			for _, must := range before[p.Event] {
				if !slices.Contains(happened[p.To], must) {
					t.Fatalf("seed %d: %s is %s before %s: %v", seed, p.To, p.Event, must, happened[p.To])
				}
			}
			if slices.Contains(happened[p.To], Bounced) || p.Event == Bounced && slices.Contains(happened[p.To], Delivered) {
				t.Fatalf("seed %d: %s is %s after %v", seed, p.To, p.Event, happened[p.To])
			}
			if p.after < latest {
				t.Fatalf("seed %d: %s comes at %s, after %s", seed, p.Event, p.after, latest)
			}
			latest = p.after
			happened[p.To] = append(happened[p.To], p.Event)
			total[p.Event]++
		}
		if len(happened) != len(recipients) {
			t.Fatalf("seed %d: %d recipients", seed, len(happened))
		}
	}
	if total[Sent] != 6000 || total[Bounced]+total[Delivered] != 6000 || total[Opened] < total[Delivered]/2 || total[Opened] > 2*total[Delivered] {
		t.Errorf("in all: %v", total)
	}
	for eventType, least := range map[string]int{Bounced: 200, Clicked: 800, Unsubscribed: 80, Complained: 40} {
		if total[eventType] < least {
			t.Errorf("in all %d %s, want %d or more", total[eventType], eventType, least)
		}
	}
}

func TestHistoriesRepeatWithTheSeed(t *testing.T) {
	t.Parallel()
	if !slices.Equal(plan([]string{"a", "b"}, Usual, 7), plan([]string{"a", "b"}, Usual, 7)) {
		t.Error("the same seed makes another history")
	}
	if slices.Equal(plan([]string{"a"}, Usual, 7), plan([]string{"a"}, Usual, 8)) {
		t.Error("another seed makes the same history")
	}
}

func TestChances(t *testing.T) {
	t.Parallel()
	types := func(c Chances) (list []string) {
		for _, p := range plan([]string{"a"}, c, 1) {
			list = append(list, p.Event)
		}
		return list
	}
	for name, c := range map[string]struct {
		chances Chances
		want    []string
	}{
		"none":     {Chances{}, []string{Sent, Delivered}},
		"bounced":  {Chances{Bounce: 1, Open: 1}, []string{Sent, Bounced}},
		"the most": {Chances{Open: 1, Click: 1, Unsubscribe: 1, Complain: 1}, []string{Sent, Delivered, Opened, Clicked, Unsubscribed, Complained}},
	} {
		if got := types(c.chances); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if n := len(types(Chances{Open: 1, Reopen: 1})); n != 2+mostOpens {
		t.Errorf("opened again and again there are %d events", n)
	}
	for _, c := range []Chances{{Bounce: 2}, {Open: -1}, {Reopen: 2}, {Click: 2}, {Unsubscribe: 2}, {Complain: 2}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if err := Usual.Validate(); err != nil {
		t.Error(err)
	}
}

func TestStepsAreReadInBothForms(t *testing.T) {
	t.Parallel()
	var steps []Step
	if err := json.Unmarshal([]byte(`["opened","other.event",{"event":"bounced","to":"b","timestamp":5,"noDelivery":true}]`), &steps); err != nil {
		t.Fatal(err)
	}
	if want := []Step{{Event: "opened"}, {Event: "other.event"}, {Event: "bounced", To: "b", Timestamp: 5, NoDelivery: true}}; !slices.Equal(steps, want) {
		t.Errorf("read %+v", steps)
	}
	if steps[0].eventType() != Opened || steps[1].eventType() != "other.event" {
		t.Errorf("the types are %s, %s", steps[0].eventType(), steps[1].eventType())
	}
	for _, text := range []string{`[5]`, `[{"name":"opened"}]`} {
		if json.Unmarshal([]byte(text), &steps) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

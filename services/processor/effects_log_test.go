package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/inbox"
)

func TestADigest(t *testing.T) {
	t.Parallel()
	d := digest{lines: 2, period: 10 * time.Second}
	begin := time.Unix(1_700_000_000, 0)
	var got []string
	admit := func(after time.Duration) {
		further, admitted := d.admit(begin.Add(after), fmt.Errorf("at %s", after))
		got = append(got, fmt.Sprint(further, " ", admitted))
	}
	sumUp := func(after time.Duration) {
		left, last := d.sumUp(begin.Add(after), false)
		got = append(got, fmt.Sprint("summed ", left, " ", last))
	}
	sumUp(0) // nothing
	admit(0)
	admit(1 * time.Second)
	admit(2 * time.Second)
	admit(3 * time.Second)
	sumUp(9 * time.Second) // not yet
	admit(10 * time.Second)
	admit(11 * time.Second)
	admit(12 * time.Second)
	sumUp(20 * time.Second) // which is the first line of a period
	admit(21 * time.Second)
	admit(22 * time.Second)
	sumUp(30 * time.Second)
	sumUp(50 * time.Second)
	admit(50 * time.Second)
	admit(51 * time.Second)
	admit(52 * time.Second)
	if left, _ := d.sumUp(begin.Add(53*time.Second), true); left != 1 {
		t.Errorf("at the end %d lines are left, want 1", left)
	}
	want := "summed 0 <nil>, 0 true, 0 true, 0 false, 0 false, summed 0 <nil>, 2 true, 0 true, 0 false, summed 1 at 12s, 0 true, 0 false, summed 1 at 22s, summed 0 <nil>, 0 true, 0 true, 0 false"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
}

// TestATargetThatIsDownDoesNotFillTheLog has many calls fail, and every one of them
// counted in what the log says.
func TestATargetThatIsDownDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	s := stillScene(t, 8, map[string]call{
		"down": func(context.Context, effects.Event, string) error { return errors.New("not today") },
		"shut": func(context.Context, effects.Event, string) error {
			return &inbox.PermanentError{Err: errors.New("no use")}
		},
	})
	for _, l := range s.lanes {
		l.failures.period, l.givenUp.period = time.Hour, time.Hour // however slow the machine is
	}
	s.start()
	const events = 100
	var keys []string
	for n := range events {
		keys = append(keys, fmt.Sprint(n))
	}
	s.happen(keys...)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		var open int
		if err := s.db.QueryRow(t.Context(), "select count(*) from effects where state <> 'given_up'").Scan(&open); err != nil {
			t.Fatal(err)
		}
		if open == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are not given up:\n%s", open, s.log)
		}
	}
	s.stop()
	told := make(map[string]int) // calls, by the line's level and effect
	lines := 0
	for line := range strings.Lines(s.log.String()) {
		for _, level := range []string{"WARN", "ERROR"} {
			for _, effect := range []string{"down", "shut"} {
				if !strings.Contains(line, "level="+level) || !strings.Contains(line, "effect="+effect) {
					continue
				}
				lines++
				further := 0
				if _, after, found := strings.Cut(line, " further="); found {
					if _, err := fmt.Sscan(after, &further); err != nil {
						t.Fatal(err)
					}
				}
				if !strings.Contains(line, "msg=\"further ") {
					further++
				}
				told[level+" "+effect] += further
			}
		}
	}
	if told["WARN down"] != 2*events || told["ERROR down"] != events || told["ERROR shut"] != events || told["WARN shut"] != 0 {
		t.Errorf("the log tells of %v", told)
	}
	if want := failureLines + 1 + 2*(givenUpLines+1); lines != want {
		t.Errorf("%d lines tell of %d failures, want %d", lines, 4*events, want)
	}
}

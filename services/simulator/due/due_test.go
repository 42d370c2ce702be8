package due_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/services/simulator/due"
)

func TestTakenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q due.Queue[string]
		if _, ok, wait := q.Take(); ok || wait != time.Minute {
			t.Errorf("of an empty queue: %t, %s", ok, wait)
		}
		now := time.Now()
		q.Add(now.Add(2*time.Second), "d")
		for _, thing := range []string{"a", "b", "c"} { // due together
			q.Add(now.Add(time.Second), thing)
		}
		q.Add(now.Add(time.Hour), "e")
		if _, ok, wait := q.Take(); ok || wait != time.Second {
			t.Errorf("before anything is due: %t, %s", ok, wait)
		}
		var taken []string
		ctx, cancel := context.WithCancel(t.Context())
		due.Loop(ctx, nil, func() time.Duration {
			for {
				thing, ok, wait := q.Take()
				if !ok {
					return wait
				}
				if taken = append(taken, thing); thing == "e" {
					cancel()
				}
			}
		})
		if !slices.Equal(taken, []string{"a", "b", "c", "d", "e"}) || time.Since(now) != time.Hour {
			t.Errorf("taken %v after %s", taken, time.Since(now))
		}
	})
}

func TestALoopIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake, steps := make(chan struct{}, 1), 0
		ctx, cancel := context.WithCancel(t.Context())
		wake <- struct{}{}
		due.Loop(ctx, wake, func() time.Duration {
			if steps++; steps == 2 {
				cancel()
			}
			return time.Minute
		})
		if steps != 2 {
			t.Errorf("%d steps", steps)
		}
	})
}

package answerline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// ended is a task's end as its delivery tells it.
type ended struct {
	after time.Duration // since the test began
	body  string
}

// live runs a set of tasks in a bubble and returns it with what it delivers.
func live(t *testing.T, change func(*Config)) (*Tasks, func() []ended) {
	cfg := Config{TimeScale: 1, QueueFor: 2 * time.Second, RunFor: 3 * time.Second, Keep: time.Hour, MaxTasks: 1000, ResultBytes: 10, Seed: 1}
	if change != nil {
		change(&cfg)
	}
	var mu sync.Mutex
	var list []ended
	began := time.Now()
	tasks := NewTasks(cfg, func(s delivery.Subject) string {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, ended{time.Since(began), string(s.Body())})
		return ""
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { tasks.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return tasks, func() []ended {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

func create(t *testing.T, tasks *Tasks) Task {
	t.Helper()
	task, err := tasks.Create(Request{TaskType: "answer"})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, nil)
		task := create(t, tasks)
		if task.Status != Queued || tasks.Counts().Queued != 1 {
			t.Errorf("created: %+v", task)
		}
		seen := make(map[string]bool)
		for len(ends()) == 0 {
			shown, _ := tasks.Show(task.ID)
			for _, status := range []string{Queued, Processing, Completed} {
				if strings.Contains(string(shown), status) {
					seen[status] = true
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !seen[Queued] || !seen[Processing] || tasks.Counts() != (Counts{Completed: 1}) {
			t.Errorf("seen %v, counted %+v", seen, tasks.Counts())
		}
		if end := ends()[0]; end.after < 2500*time.Millisecond || end.after > 7500*time.Millisecond || !strings.Contains(end.body, Completed) {
			t.Errorf("it ended after %s: %s", end.after, end.body)
		}
		time.Sleep(time.Hour)
		if _, err := tasks.Show(task.ID); !errors.Is(err, ErrUnknown) || tasks.Counts().Forgotten != 1 {
			t.Errorf("after its keep time it is still there: %v", err)
		}
	})
}

func TestQueueWaitExceeded(t *testing.T) {
	for name, scale := range map[string]float64{"real time": 1, "an hour a minute": 60, "as fast as it goes": 1e6} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tasks, ends := live(t, func(c *Config) { c.TimeScale = scale })
				tasks.SetChances(Chances{Stalled: true})
				create(t, tasks)
				time.Sleep(5 * time.Hour)
				end, limit := ends()[0], time.Duration(4*float64(time.Hour)/scale)
				if end.after != limit {
					t.Errorf("it ended after %s, want %s", end.after, limit)
				}
				if !strings.Contains(end.body, `"status":"FAILED"`) || !strings.Contains(end.body, "QUEUE_WAIT_EXCEEDED") || !strings.Contains(end.body, `"creditsCharged":0`) {
					t.Errorf("it ended like this: %s", end.body)
				}
			})
		})
	}
}

func TestAStalledQueueGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, nil)
		tasks.SetChances(Chances{Stalled: true})
		create(t, tasks)
		time.Sleep(time.Hour)
		if tasks.Counts().Queued != 1 {
			t.Errorf("stalled: %+v", tasks.Counts())
		}
		tasks.SetChances(Chances{})
		time.Sleep(10 * time.Second)
		if len(ends()) != 1 || !strings.Contains(ends()[0].body, Completed) {
			t.Errorf("it ended like this: %v", ends())
		}
	})
}

func TestRequeuedAndOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, nil)
		tasks.SetChances(Chances{Requeue: 1})
		task := create(t, tasks)
		back, processing := 0, false
		for len(ends()) == 0 {
			shown, _ := tasks.Show(task.ID)
			now := strings.Contains(string(shown), Processing)
			if processing && !now {
				back++
			}
			processing = now
			time.Sleep(100 * time.Millisecond)
		}
		if back < 10 {
			t.Errorf("it fell back to QUEUED %d times", back)
		}
		if end := ends()[0]; end.after < 5*time.Minute || end.after > 5*time.Minute+4*time.Second || !strings.Contains(end.body, "RUN_TIME_EXCEEDED") {
			t.Errorf("it ended after %s: %s", end.after, end.body)
		}
	})
}

func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, nil)
		tasks.SetChances(Chances{Fail: .5})
		for range 400 {
			create(t, tasks)
		}
		time.Sleep(time.Minute)
		if c := tasks.Counts(); len(ends()) != 400 || c.Failed < 150 || c.Failed > 250 || c.Completed+c.Failed != 400 {
			t.Errorf("the counts are %+v", c)
		}
	})
}

func TestCancelQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, func(c *Config) { c.RunFor = time.Minute })
		running := create(t, tasks)
		time.Sleep(10 * time.Second)
		for range 3 {
			create(t, tasks)
		}
		if n := tasks.CancelQueued(); n != 3 {
			t.Errorf("%d removed, want 3", n)
		}
		time.Sleep(time.Hour / 2)
		if _, err := tasks.Show(running.ID); err != nil || len(ends()) != 1 {
			t.Errorf("a running task is affected: %v, %d ended", err, len(ends()))
		}
		if c := tasks.Counts(); c != (Counts{Completed: 1, Cancelled: 3}) {
			t.Errorf("the counts are %+v", c)
		}
	})
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, ends := live(t, nil)
		create(t, tasks)
		tasks.Reset()
		time.Sleep(time.Minute)
		if len(ends()) != 0 || tasks.Counts() != (Counts{}) {
			t.Errorf("after a reset: %d ended, %+v", len(ends()), tasks.Counts())
		}
	})
}

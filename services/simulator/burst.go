package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/catchwater/catchwater/services/simulator/answerline"
)

const (
	maxBurst = 1_000_000
	// keptBursts is how many bursts are remembered.
	keptBursts = 20
)

// burstRequest is what a burst is asked for with.
type burstRequest struct {
	Count       int     `json:"count"`
	PerSecond   float64 `json:"perSecond"` // 0: all at once
	KeyPrefix   string  `json:"keyPrefix"` // idempotency keys are <prefix>-<n>; none without it
	Jobs        int     `json:"jobs"`      // with it, keys are of so many jobs: <prefix>-<n mod jobs>, then with -r1, -r2 …
	TaskType    string  `json:"taskType"`
	ResultBytes int     `json:"resultBytes"`
	FailRatio   float64 `json:"failRatio"`
	NoDelivery  bool    `json:"noDelivery"` // as if all deliveries were lost, without a trace in the log
	NoWait      bool    `json:"noWait"`     // answer before the burst is done
}

func (r burstRequest) validate() string {
	switch {
	case r.Count < 1 || r.Count > maxBurst:
		return fmt.Sprintf("count is %d: use 1 to %d", r.Count, maxBurst)
	case !(r.PerSecond >= 0):
		return "perSecond: use 0 or more"
	case r.Jobs < 0 || r.Jobs > 0 && r.KeyPrefix == "":
		return "jobs: use 1 or more, with a keyPrefix"
	case !(r.FailRatio >= 0 && r.FailRatio <= 1):
		return "failRatio: use 0 to 1"
	case r.ResultBytes < 0 || r.ResultBytes > maxResultBytes:
		return fmt.Sprintf("resultBytes is %d: use 0 to %d", r.ResultBytes, maxResultBytes)
	}
	return ""
}

// key is the idempotency key of the burst's nth task.
func (r burstRequest) key(n int) *string {
	if r.KeyPrefix == "" {
		return nil
	}
	job, again := n, 0
	if r.Jobs > 0 {
		job, again = n%r.Jobs, n/r.Jobs
	}
	key := fmt.Sprintf("%s-%d", r.KeyPrefix, job)
	if again > 0 {
		key += fmt.Sprintf("-r%d", again)
	}
	return &key
}

// burst is finished tasks in quick succession.
type burst struct {
	id   string
	ask  burstRequest
	done chan struct{}

	mu  sync.Mutex
	ids []string
}

// burstView is what is told of a burst.
type burstView struct {
	ID      string   `json:"burst"`
	Count   int      `json:"count"`
	Made    int      `json:"made"`
	Done    bool     `json:"done"` // all are made, or the burst was stopped
	TaskIDs []string `json:"taskIds"`
}

func (b *burst) view() burstView {
	b.mu.Lock()
	defer b.mu.Unlock()
	return burstView{ID: b.id, Count: b.ask.Count, Made: len(b.ids), Done: b.ended(), TaskIDs: append([]string{}, b.ids...)}
}

func (b *burst) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// run makes the tasks, each at its time counted from the start, so that a late
// one does not delay the next.
func (b *burst) run(ctx context.Context, tasks *answerline.Tasks, random *rand.Rand) {
	began := time.Now()
	for n := range b.ask.Count {
		due := began
		if b.ask.PerSecond > 0 {
			due = began.Add(time.Duration(float64(n) / b.ask.PerSecond * float64(time.Second)))
		}
		if !sleepUntil(ctx, due) {
			return
		}
		exact := answerline.Exact{
			TaskType: b.ask.TaskType, IdempotencyKey: b.ask.key(n), ResultBytes: b.ask.ResultBytes, NoDelivery: b.ask.NoDelivery,
		}
		if random.Float64() < b.ask.FailRatio {
			exact.Status = answerline.Failed
		}
		made, err := tasks.Make(exact)
		if err != nil {
			return // of a task without an id of its own there is nothing to refuse
		}
		b.mu.Lock()
		b.ids = append(b.ids, made.ID)
		b.mu.Unlock()
	}
}

// sleepUntil reports whether the time has come before ctx ended.
func sleepUntil(ctx context.Context, due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// bursts are the running ones and the latest ended ones.
type bursts struct {
	base  context.Context
	tasks *answerline.Tasks
	seed  uint64

	mu      sync.Mutex
	ctx     context.Context // of the running ones
	cancel  context.CancelFunc
	list    []*burst
	next    int
	running sync.WaitGroup
}

func newBursts(base context.Context, tasks *answerline.Tasks, seed uint64) *bursts {
	b := &bursts{base: base, tasks: tasks, seed: seed}
	b.ctx, b.cancel = context.WithCancel(base)
	return b
}

// start starts a burst.
func (s *bursts) start(ask burstRequest) *burst {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	b := &burst{id: fmt.Sprintf("burst_%d", s.next), ask: ask, done: make(chan struct{})}
	if len(s.list) >= keptBursts && s.list[0].ended() {
		s.list = s.list[1:]
	}
	s.list = append(s.list, b)
	ctx, random := s.ctx, rand.New(rand.NewPCG(s.seed, uint64(s.next)))
	s.running.Go(func() {
		defer close(b.done)
		b.run(ctx, s.tasks, random)
	})
	return b
}

// find returns a burst by its id, or nil.
func (s *bursts) find(id string) *burst {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.list {
		if b.id == id {
			return b
		}
	}
	return nil
}

// idle reports whether no burst is running.
func (s *bursts) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.list {
		if !b.ended() {
			return false
		}
	}
	return true
}

// stop ends the running bursts and forgets all.
func (s *bursts) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.list = nil
	s.ctx, s.cancel = context.WithCancel(s.base)
}

// wait returns when the bursts have ended, which the base context makes them.
func (s *bursts) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

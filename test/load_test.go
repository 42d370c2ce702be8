package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/test/harness"
)

// balancer spreads requests over ingresses in turn, as a load balancer does.
type balancer struct {
	mu        sync.Mutex
	ingresses []*harness.Service
	next      int
}

func (b *balancer) pick() *harness.Service {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.ingresses[b.next%len(b.ingresses)]
}

// add sends work to an ingress from now on, and remove sends it no more.
func (b *balancer) add(s *harness.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ingresses = append(b.ingresses, s)
}

func (b *balancer) remove(s *harness.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ingresses = slices.DeleteFunc(b.ingresses, func(one *harness.Service) bool { return one == s })
}

// load posts distinct deliveries from several senders until stopped, and
// remembers which were acknowledged.
type load struct {
	mu       sync.Mutex
	accepted []string
	refused  map[int]int
	errs     []error
}

func (l *load) run(senders int, stop <-chan struct{}, addr func() string) {
	var group sync.WaitGroup
	for sender := range senders {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("s%d-%d", sender, n)
				body := harness.Task(id, id, "COMPLETED", "2026-01-02T03:04:05Z")
				status, err := harness.Send(addr(), "/hooks/answers", body, map[string]string{
					"Webhook-Signature": delivery.Sign([]string{harness.Secret}, time.Now(), body),
				})
				l.mu.Lock()
				switch {
				case err != nil:
					l.errs = append(l.errs, err)
				case status == http.StatusNoContent:
					l.accepted = append(l.accepted, id)
				default:
					l.refused[status]++
				}
				l.mu.Unlock()
			}
		})
	}
	group.Wait()
}

// assertNoneRefused checks that every request was answered, and with 204.
func (l *load) assertNoneRefused(t *testing.T) {
	t.Helper()
	if len(l.errs) > 0 || len(l.refused) > 0 {
		t.Errorf("%d requests ended without an answer (first: %v), refused: %v", len(l.errs), slices.Concat(l.errs, []error{nil})[0], l.refused)
	}
	if len(l.accepted) < 1000 {
		t.Errorf("only %d deliveries were accepted: no load", len(l.accepted))
	}
}

// assertAllAnswered checks that each accepted delivery has one row, processed
// once, and one answer.
func assertAllAnswered(t *testing.T, s *harness.System, accepted []string) {
	t.Helper()
	s.AwaitInt(30*time.Second, len(accepted), "select count(*) from answers where task_id = any($1)", accepted)
	if n := s.Int("select count(*) from inbox where event_key = any($1) and state = 'processed' and attempts = 1", accepted); n != len(accepted) {
		t.Errorf("%d rows were processed in one attempt, want %d", n, len(accepted))
	}
}

// TestTwoIngressesThreeProcessors delivers everything twice or more, out of
// order, over two ingresses, while processors are killed.
func TestTwoIngressesThreeProcessors(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingresses := []*harness.Service{s.StartService("ingress"), s.StartService("ingress")}
	var processors []*harness.Service
	for range 3 {
		processors = append(processors, s.StartService("processor"))
	}
	const tasks = 2000
	bodies := make([][]byte, 0, 2*tasks)
	ids := make([]string, 0, tasks)
	for n := range tasks {
		id := fmt.Sprintf("t%d", n)
		ids = append(ids, id)
		body := harness.Task(id, fmt.Sprintf("job-%d-r%d", n/3, n%3), "COMPLETED", fmt.Sprintf("2026-01-02T03:04:%02dZ", n%3))
		bodies = append(bodies, body, body)
	}
	rand.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	work := make(chan []byte)
	var senders sync.WaitGroup
	for sender := range 16 {
		senders.Go(func() {
			for body := range work {
				if status := harness.Post(t, ingresses[sender%2].Addr, "/hooks/answers", body, harness.Secret); status != http.StatusNoContent {
					t.Errorf("answered %d", status)
				}
			}
		})
	}
	for n, body := range bodies {
		if n%1000 == 500 {
			victim := processors[(n/1000)%3]
			victim.Kill()
			victim.Start()
		}
		work <- body
	}
	close(work)
	senders.Wait()
	assertAllAnswered(t, s, ids)
	if n := s.Int("select count(*) from inbox"); n != tasks {
		t.Errorf("%d inbox rows, want %d", n, tasks)
	}
	jobs := (tasks + 2) / 3
	if n := s.Int("select count(*) from job_results"); n != jobs {
		t.Errorf("%d jobs, want %d", n, jobs)
	}
	// Of three tasks a job, the one created last wins whatever came when.
	if n := s.Int("select count(*) from job_results where idempotency_key not like '%-r2'"); n > 1 { // the last job may have fewer tasks
		t.Errorf("%d jobs were not won by their latest task", n)
	}
}

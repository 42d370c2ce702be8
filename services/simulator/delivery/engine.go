package delivery

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/catchwater/catchwater/services/simulator/due"
)

const (
	dialTimeout = 5 * time.Second
	// stopGrace is how long attempts under way may go on once Run's context has
	// ended.
	stopGrace = 2 * time.Second
	// errLogFull is the note on a delivery for which the log has no room.
	errLogFull = "the log is full of pending deliveries"
)

// Config says how an engine delivers.
type Config struct {
	Contract       Contract
	URL            string
	Secrets        []string // every delivery is signed with each
	TimeScale      float64  // how many times faster waits pass; 1 is real time
	Senders        int      // requests under way at a time
	PrivateTargets bool     // whether http and private addresses are delivered to
	RedeliverLimit int      // redeliveries an hour, before the time scale
	MaxLog         int      // deliveries kept; ended ones make room
	Seed           uint64
	// Dial makes connections; nil is the usual way, and the only one in which
	// PrivateTargets counts.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Engine delivers. It is safe for concurrent use.
type Engine struct {
	cfg    Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	client *http.Client
	wake   chan struct{}

	mu          sync.Mutex
	url         string
	secrets     []string
	faults      Faults
	random      *mathrand.Rand
	paused      bool
	byID        map[string]*Delivery
	order       []*Delivery
	queue       due.Queue[*Delivery]
	underWay    int
	redelivered []time.Time
	total       totals
}

// NewEngine returns an engine that sends nothing until Run.
func NewEngine(cfg Config) *Engine {
	dial := cfg.Dial
	if dial == nil {
		dial = dialer(cfg.PrivateTargets)
	}
	e := &Engine{
		cfg: cfg, dial: dial, wake: make(chan struct{}, 1),
		client: &http.Client{
			Transport: &http.Transport{
				DialContext: dial, MaxIdleConnsPerHost: cfg.Senders, IdleConnTimeout: 30 * time.Second,
			},
			// A redirect is an answer that is not 2xx, like any other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	e.Reset()
	return e
}

// Reset forgets everything but what NewEngine was told. Requests under way end
// unrecorded.
func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.url, e.secrets, e.faults, e.paused = e.cfg.URL, slices.Clone(e.cfg.Secrets), Faults{}, false
	e.random = mathrand.New(mathrand.NewPCG(e.cfg.Seed, e.cfg.Seed))
	e.byID, e.order, e.queue = make(map[string]*Delivery), nil, due.Queue[*Delivery]{}
	e.redelivered, e.total = nil, newTotals()
}

// Add queues the delivery of a subject and returns the delivery's id.
func (e *Engine) Add(subject Subject) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := &Delivery{ID: "wh_" + strings.ToLower(rand.Text()), CreatedAt: time.Now(), Subject: subject}
	full := e.total.states[Pending] >= e.cfg.MaxLog
	e.makeRoom()
	e.byID[d.ID] = d
	e.order = append(e.order, d)
	switch {
	case full:
		d.LastError = errLogFull
		e.become(d, Dropped)
	case e.faults.Drop > 0 && e.random.Float64() < e.faults.Drop:
		e.become(d, Dropped)
	default:
		e.become(d, Pending)
		e.enqueue(d, e.firstDelay())
	}
	return d.ID
}

// makeRoom forgets the oldest tenth of a full log, as far as it has ended.
func (e *Engine) makeRoom() {
	if len(e.order) < e.cfg.MaxLog || len(e.order)-e.total.states[Pending] < e.cfg.MaxLog/10 {
		return
	}
	excess := len(e.order) - e.cfg.MaxLog*9/10
	e.order = slices.DeleteFunc(e.order, func(d *Delivery) bool {
		if excess == 0 || d.State == Pending {
			return false
		}
		excess--
		e.total.forgotten++
		delete(e.byID, d.ID)
		return true
	})
}

// become moves a delivery to a state, and the totals with it.
func (e *Engine) become(d *Delivery, s State) {
	if d.State != "" {
		e.total.states[d.State]--
	}
	e.total.states[s]++
	d.State, d.EndedAt = s, time.Time{}
	if s == Delivered || s == Dead {
		d.EndedAt = time.Now()
	}
}

func (e *Engine) enqueue(d *Delivery, wait time.Duration) {
	d.NextAttemptAt = time.Now().Add(wait)
	e.queue.Add(d.NextAttemptAt, d)
	e.signal()
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, then lets the attempts under way finish, which it
// cuts short after two seconds.
func (e *Engine) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	work := make(chan *Delivery)
	var senders sync.WaitGroup
	for range e.cfg.Senders {
		senders.Go(func() {
			for d := range work {
				e.attempt(sending, d)
			}
		})
	}
	e.dispatch(ctx, work)
	close(work)
	grace := time.AfterFunc(stopGrace, cancel)
	senders.Wait()
	grace.Stop()
	e.client.CloseIdleConnections()
}

// dispatch hands out what is due until ctx ends.
func (e *Engine) dispatch(ctx context.Context, work chan<- *Delivery) {
	for {
		d, wait := e.takeDue()
		if d != nil {
			select {
			case work <- d:
				continue
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// takeDue returns the next delivery that is due, or how long to wait.
func (e *Engine) takeDue() (*Delivery, time.Duration) {
	const untilResumed = time.Minute // which wakes the dispatcher
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.paused {
		return nil, untilResumed
	}
	d, ok, wait := e.queue.Take()
	if !ok {
		return nil, wait
	}
	e.underWay++
	d.NextAttemptAt = time.Time{}
	return d, 0
}

// attempt makes one attempt and records what came of it.
func (e *Engine) attempt(ctx context.Context, d *Delivery) {
	e.mu.Lock()
	r := request{target: e.url, secrets: e.secrets, id: d.ID, mishaps: e.draw()}
	e.mu.Unlock()
	r.body = d.Subject.Body()

	began := time.Now()
	var twin Answer
	var other sync.WaitGroup
	if r.duplicate {
		other.Go(func() { twin = e.send(ctx, r) })
	}
	first := e.send(ctx, r)
	other.Wait()
	answers := []Answer{first}
	if r.duplicate {
		answers = append(answers, twin)
	}
	if r.repeat && first.delivered() {
		answers = append(answers, e.send(ctx, r))
	}
	if r.lose && first.delivered() {
		first = Answer{Err: "the answer was lost (a fault)", TookMs: first.TookMs}
	}
	e.settle(d, began, first, answers)
}

// settle records an attempt, whose outcome is first, and decides what comes
// next. The answers are those of all requests that it took.
func (e *Engine) settle(d *Delivery, began time.Time, first Answer, answers []Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.underWay--
	if e.byID[d.ID] != d {
		return // there was a reset
	}
	if first.hopeless { // nothing was sent
		d.LastCode, d.LastError = 0, first.Err
		e.become(d, Dead)
		return
	}
	for _, a := range answers {
		e.total.count(a)
	}
	e.total.attempts++
	d.Sends += len(answers)
	d.note(began, first)
	switch {
	case first.delivered():
		e.become(d, Delivered)
	case d.Attempts >= e.cfg.Contract.MaxAttempts:
		e.become(d, Dead)
	default:
		e.enqueue(d, e.scaled(e.cfg.Contract.Wait(d.Attempts, e.random)))
	}
}

func (e *Engine) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / e.cfg.TimeScale)
}

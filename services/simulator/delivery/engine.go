package delivery

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says how an engine delivers.
type Config struct {
	URL            string
	Secrets        []string // every delivery is signed with each
	TimeScale      float64  // how many times faster waits pass; 1 is real time
	Senders        int      // requests under way at a time
	PrivateTargets bool     // whether http and private addresses are delivered to
	RedeliverLimit int      // redeliveries an hour, before the time scale
	MaxLog         int      // deliveries kept; ended ones make room
	Seed           uint64
}

// Faults are what goes wrong on purpose. Ratios are from 0 to 1.
type Faults struct {
	Drop      float64 `json:"drop"`       // deliveries that are never sent
	Duplicate float64 `json:"duplicate"`  // attempts that are sent twice, at once
	Lose      float64 `json:"lose"`       // attempts whose 2xx is taken for a lost answer
	DelayMs   int     `json:"delayMs"`    // before a delivery's first attempt
	Disorder  int     `json:"disorderMs"` // at random up to this, on top
}

// Engine delivers. It is safe for concurrent use.
type Engine struct {
	client *http.Client
	now    func() time.Time

	mu          sync.Mutex
	cfg         Config
	faults      Faults
	random      *rand.Rand
	byID        map[string]*Delivery
	order       []*Delivery
	queue       dueQueue
	paused      bool
	underWay    int
	redelivered []time.Time
	sends       int
	byCode      map[string]int
	answerTimes []time.Duration
	next        int
	wake        chan struct{}
}

// NewEngine returns an engine that sends nothing until Run.
func NewEngine(cfg Config) *Engine {
	transport := &http.Transport{
		MaxIdleConnsPerHost: cfg.Senders, MaxConnsPerHost: cfg.Senders, IdleConnTimeout: 30 * time.Second,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	return &Engine{
		cfg: cfg, now: time.Now, random: rand.New(rand.NewPCG(cfg.Seed, cfg.Seed)),
		client: &http.Client{
			Transport: transport, Timeout: AttemptTimeout,
			// A redirect is an answer that is not 2xx, like any other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		byID: make(map[string]*Delivery), byCode: make(map[string]int), wake: make(chan struct{}, 1),
	}
}

// Add queues a new delivery of a finished task.
func (e *Engine) Add(taskID string, body []byte) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	d := &Delivery{ID: fmt.Sprintf("wh_%d_%s", e.next, taskID), TaskID: taskID, State: Pending, CreatedAt: e.now(), body: body}
	e.makeRoom()
	e.byID[d.ID] = d
	e.order = append(e.order, d)
	delay := time.Duration(e.faults.DelayMs) * time.Millisecond
	if e.faults.Disorder > 0 {
		delay += time.Duration(e.random.IntN(e.faults.Disorder+1)) * time.Millisecond
	}
	switch reason := e.undeliverable(); {
	case reason != "":
		d.State, d.LastError, d.EndedAt = Dead, reason, e.now()
	case e.random.Float64() < e.faults.Drop:
		d.State = Dropped
	default:
		e.enqueue(d, delay)
	}
	return d.ID
}

// makeRoom forgets the oldest deliveries that have ended.
func (e *Engine) makeRoom() {
	if len(e.order) < e.cfg.MaxLog {
		return
	}
	keep := e.order[:0]
	excess := len(e.order) - e.cfg.MaxLog*9/10
	for _, d := range e.order {
		if excess > 0 && d.State != Pending {
			delete(e.byID, d.ID)
			excess--
			continue
		}
		keep = append(keep, d)
	}
	e.order = keep
}

// undeliverable is why the target can never be delivered to, or "".
func (e *Engine) undeliverable() string {
	target, err := url.Parse(e.cfg.URL)
	switch {
	case e.cfg.URL == "":
		return "no webhook is registered"
	case err != nil || target.Host == "":
		return "the registered URL is not one"
	case e.cfg.PrivateTargets:
		return ""
	case target.Scheme != "https":
		return "the target is not https"
	}
	ip := net.ParseIP(target.Hostname())
	if target.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()) {
		return "the target is not a public address"
	}
	return ""
}

func (e *Engine) enqueue(d *Delivery, wait time.Duration) {
	d.due = e.now().Add(wait)
	heap.Push(&e.queue, d)
	e.signal()
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, then lets the attempts under way finish.
func (e *Engine) Run(ctx context.Context) {
	work := make(chan *Delivery)
	var senders sync.WaitGroup
	for range e.cfg.Senders {
		senders.Go(func() {
			for d := range work {
				e.attempt(d)
			}
		})
	}
	defer senders.Wait()
	defer close(work)
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
	const idle = time.Minute
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.paused || len(e.queue) == 0 {
		return nil, idle
	}
	if wait := e.queue[0].due.Sub(e.now()); wait > 0 {
		return nil, min(wait, idle)
	}
	e.underWay++
	return heap.Pop(&e.queue).(*Delivery), 0
}

// attempt makes one attempt and decides what comes next.
func (e *Engine) attempt(d *Delivery) {
	e.mu.Lock()
	target, secrets := e.cfg.URL, e.cfg.Secrets
	twice := e.random.Float64() < e.faults.Duplicate
	lose := e.random.Float64() < e.faults.Lose
	e.mu.Unlock()

	var other sync.WaitGroup
	if twice {
		other.Go(func() { e.count(d, e.send(context.Background(), target, secrets, d.ID, d.body, nil)) })
	}
	answer := e.send(context.Background(), target, secrets, d.ID, d.body, nil)
	other.Wait()
	e.count(d, answer)
	if lose && answer.delivered() {
		answer = Answer{Err: "the answer was lost (a fault)", Took: answer.Took}
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	e.underWay--
	d.Attempts++
	d.Total++
	d.LastCode, d.LastError = answer.Code, answer.Err
	switch {
	case answer.delivered():
		d.State, d.EndedAt = Delivered, e.now()
	case d.Attempts >= MaxAttempts:
		d.State, d.EndedAt = Dead, e.now()
	default:
		e.enqueue(d, time.Duration(float64(Wait(d.Attempts, e.random))/e.cfg.TimeScale))
	}
}

func (e *Engine) count(d *Delivery, a Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sends++
	d.Sends++
	code := "none"
	if a.Code != 0 {
		code = strconv.Itoa(a.Code)
	}
	e.byCode[code]++
	if len(e.answerTimes) < 1_000_000 {
		e.answerTimes = append(e.answerTimes, a.Took)
	}
}

// Answer is what a receiver answered to one request.
type Answer struct {
	Code int           `json:"status"` // 0 when there was none
	Err  string        `json:"error,omitempty"`
	Took time.Duration `json:"took"`
}

func (a Answer) delivered() bool { return a.Code >= 200 && a.Code < 300 }

// Send makes one request outside the log, with the secrets valid now: a
// dashboard's test delivery, or bytes of the caller's choice. Headers given
// here replace the engine's own.
func (e *Engine) Send(ctx context.Context, id string, body []byte, headers map[string]string) Answer {
	e.mu.Lock()
	target, secrets := e.cfg.URL, e.cfg.Secrets
	e.mu.Unlock()
	return e.send(ctx, target, secrets, id, body, headers)
}

func (e *Engine) send(ctx context.Context, target string, secrets []string, id string, body []byte, headers map[string]string) Answer {
	began := e.now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Answerline-Webhooks/1.0 (simulator)")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Signature", Sign(secrets, e.now(), body))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := e.client.Do(request)
	took := e.now().Sub(began)
	if err != nil {
		return Answer{Err: err.Error(), Took: took}
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be kept
	answer := Answer{Code: response.StatusCode, Took: took}
	if !answer.delivered() {
		answer.Err = response.Status
	}
	return answer
}

// Sign makes the Webhook-Signature header: the time, and one v1 for each
// secret. It is written out here, not shared with the receiver's code, so that
// each is a check on the other.
func Sign(secrets []string, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	items := []string{"t=" + stamp}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		items = append(items, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(items, ",")
}

// The reasons why a redelivery is refused.
var (
	ErrUnknown  = errors.New("no such delivery")
	ErrPending  = errors.New("the delivery is pending: it is still retrying by itself")
	ErrTooOften = errors.New("too many redeliveries in this hour")
)

// Redeliver sends an ended delivery again at once, with a fresh set of attempts.
func (e *Engine) Redeliver(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.byID[id]
	hour := time.Duration(float64(time.Hour) / e.cfg.TimeScale)
	e.redelivered = slices.DeleteFunc(e.redelivered, func(at time.Time) bool { return e.now().Sub(at) > hour })
	switch {
	case d == nil:
		return ErrUnknown
	case d.State == Pending:
		return ErrPending
	case len(e.redelivered) >= e.cfg.RedeliverLimit:
		return ErrTooOften
	}
	e.redelivered = append(e.redelivered, e.now())
	d.State, d.Attempts, d.EndedAt = Pending, 0, time.Time{}
	e.enqueue(d, 0)
	return nil
}

// Set changes the target and the secrets; nil leaves each as it is.
func (e *Engine) Set(target *string, secrets []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if target != nil {
		e.cfg.URL = *target
	}
	if secrets != nil {
		e.cfg.Secrets = slices.Clone(secrets)
	}
}

// SetFaults replaces the faults.
func (e *Engine) SetFaults(f Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

// Pause stops new attempts, or lets them go on.
func (e *Engine) Pause(paused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = paused
	e.signal()
}

// Idle reports whether nothing is pending.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue) == 0 && e.underWay == 0
}

// List returns the deliveries in a state, or all of them, the newest first.
func (e *Engine) List(state State, limit int) []Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []Delivery{}
	for _, d := range slices.Backward(e.order) {
		if len(list) < limit && (state == "" || d.State == state) {
			list = append(list, *d)
		}
	}
	return list
}

// Report sums the log up; in detail it names every task.
func (e *Engine) Report(detail bool) Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Report{Sends: e.sends, ByCode: make(map[string]int, len(e.byCode)), AnswerMs: quantiles(e.answerTimes)}
	for code, n := range e.byCode {
		r.ByCode[code] = n
	}
	if detail {
		r.TaskIDs = make(map[State][]string)
	}
	for _, d := range e.order {
		switch d.State {
		case Pending:
			r.Pending++
		case Delivered:
			r.Delivered++
		case Dead:
			r.Dead++
		case Dropped:
			r.Dropped++
		}
		if detail {
			r.TaskIDs[d.State] = append(r.TaskIDs[d.State], d.TaskID)
			r.Deliveries = append(r.Deliveries, *d)
		}
	}
	return r
}

func quantiles(times []time.Duration) map[string]float64 {
	result := make(map[string]float64)
	if len(times) == 0 {
		return result
	}
	sorted := slices.Clone(times)
	slices.SortFunc(sorted, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	for name, q := range map[string]float64{"p50": .5, "p99": .99, "max": 1} {
		at := sorted[int(q*float64(len(sorted)-1))]
		result[name] = float64(at.Microseconds()) / 1000
	}
	return result
}

// dueQueue is a heap of deliveries by their due time.
type dueQueue []*Delivery

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q dueQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)        { *q = append(*q, x.(*Delivery)) }
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	*q = (*q)[:last]
	return d
}

package koltrix

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/services/simulator/due"
)

// Config says how messages live.
type Config struct {
	TimeScale   float64       // how many times faster than real time
	Step        time.Duration // about how long lies between two events, before the time scale
	Keep        time.Duration // how long a message is kept after its last event, before the time scale
	MaxMessages int           // messages admitted whose lives go on, and others kept
	Seed        uint64
}

// Messages is all of them. It is safe for concurrent use.
type Messages struct {
	cfg     Config
	deliver func(delivery.Subject) (deliveryID string)
	wake    chan struct{}

	mu      sync.Mutex
	chances Chances
	made    uint64 // messages so far: each has randomness of its own
	byID    map[string]*message
	next    due.Queue[*message]
	kept    []*message // those whose plan is done, the oldest first
	counts  Counts
}

// NewMessages returns an empty set. deliver is called, without any lock, for each
// event that is to be delivered.
func NewMessages(cfg Config, deliver func(delivery.Subject) (deliveryID string)) *Messages {
	m := &Messages{cfg: cfg, deliver: deliver, wake: make(chan struct{}, 1)}
	m.Reset()
	return m
}

// Reset forgets all messages, and has the usual chances.
func (s *Messages) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.byID {
		m.gone.Store(true)
	}
	s.byID, s.next, s.kept = make(map[string]*message), due.Queue[*message]{}, nil
	s.chances, s.made, s.counts = Usual, 0, Counts{Events: make(map[string]int)}
}

// Chances returns the chances.
func (s *Messages) Chances() Chances {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chances
}

// SetChances replaces the chances, for messages made from now on.
func (s *Messages) SetChances(c Chances) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chances = c
}

// Counts are how many messages and events there are.
type Counts struct {
	Living    int            `json:"living"`       // messages to which something will still happen
	Ended     int            `json:"ended"`        // the others
	Forgotten int            `json:"noLongerKept"` // of those
	Events    map[string]int `json:"events"`       // so far, by type
}

// Counts returns the counts.
func (s *Messages) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Events = maps.Clone(c.Events)
	return c
}

// What the set refuses.
var (
	ErrFull    = errors.New("too many messages are still under way")
	ErrExists  = errors.New("a message with this id exists")
	ErrUnknown = errors.New("there is no such message, or it is no longer kept")
	ErrNoEvent = errors.New("name the event, such as bounced")
)

// Recipients is whom a message is for: in JSON one address or several.
type Recipients []string

// Request is what a message is sent with.
type Request struct {
	To       Recipients `json:"to"`
	From     string     `json:"from"`
	Subject  string     `json:"subject"`
	Category string     `json:"category"`
}

// Create queues a message, which then lives by itself.
func (s *Messages) Create(r Request) (Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts.Living >= s.cfg.MaxMessages {
		return Message{}, ErrFull
	}
	m, random := s.add("", r)
	m.plan = plausible(m.recipients, s.chances, s.cfg.Step, random)
	s.proceed(m)
	return m.Message, nil
}

// add makes a queued message, and makes up what it was not told of it.
func (s *Messages) add(id string, r Request) (*message, *mathrand.Rand) {
	s.made++
	random := mathrand.New(mathrand.NewPCG(s.cfg.Seed, s.made))
	if id == "" {
		id = "msg_" + strings.ToLower(rand.Text())
	}
	if len(r.To) == 0 {
		r.To = readers(random)
	}
	if r.From == "" {
		r.From = "news@sender.example"
	}
	if r.Subject == "" {
		r.Subject = fmt.Sprintf("News %d", s.made)
	}
	m := &message{recipients: r.To, began: time.Now(), Message: Message{
		ID: id, Status: queued, Timestamp: time.Now().Unix(), To: r.To[0], From: r.From, Subject: r.Subject, Category: r.Category,
	}}
	s.byID[id] = m
	s.counts.Living++
	return m, random
}

// readers makes recipients up: often one, at most three.
func readers(random *mathrand.Rand) (to Recipients) {
	for len(to) == 0 || len(to) < 3 && random.Float64() < .2 {
		to = append(to, fmt.Sprintf("reader%d@example.com", random.IntN(1_000_000)))
	}
	return to
}

// Show returns a message as the API shows it, or ErrUnknown.
func (s *Messages) Show(id string) (Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byID[id]
	if m == nil {
		return Message{}, ErrUnknown
	}
	return m.Message, nil
}

// end says that nothing more happens to a message by itself.
func (s *Messages) end(m *message) {
	m.ended, m.plan = time.Now(), nil
	s.counts.Living--
	s.counts.Ended++
	s.kept = append(s.kept, m)
	if len(s.kept) > s.cfg.MaxMessages {
		s.forgetOldest()
	}
}

func (s *Messages) forgetOldest() {
	oldest := s.kept[0]
	s.kept[0] = nil
	s.kept = s.kept[1:]
	oldest.gone.Store(true)
	delete(s.byID, oldest.Message.ID)
	s.counts.Forgotten++
}

func (s *Messages) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.TimeScale)
}

func (s *Messages) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

// calls is an endpoint that effects call. It answers at once, and remembers each
// call.
type calls struct {
	server *httptest.Server

	mu     sync.Mutex
	byKey  map[string][]time.Time // when each call with an idempotency key began
	bodies map[string]string
	unlike []string // keys whose body was another the next time
}

func newCalls(t *testing.T) *calls {
	t.Helper()
	c := &calls{byKey: make(map[string][]time.Time), bodies: make(map[string]string)}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		body, err := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if err != nil || key == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if before, seen := c.bodies[key]; seen && before != string(body) {
			c.unlike = append(c.unlike, key)
		}
		c.byKey[key], c.bodies[key] = append(c.byKey[key], began), string(body)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// kills kills one of several services every second, and starts it again.
type kills struct {
	mu sync.Mutex
	at []time.Time
}

// run goes on until stopped, at most for so many kills.
func (k *kills) run(services []*harness.Service, most int, stop <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := range most {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		victim := services[n%len(services)]
		victim.Kill()
		k.mu.Lock()
		k.at = append(k.at, time.Now())
		k.mu.Unlock()
		victim.Start()
	}
}

// between says whether there was a kill after one time and before another.
func (k *kills) between(after, before time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.at, func(at time.Time) bool { return at.After(after) && at.Before(before) })
}

// stormConfig has two sources alike: one for the storm, one for the same events
// in order. A processor that was killed is taken for dead after 30 s, by when the
// killing is over: so an effect meets at most one kill.
const stormConfig = `sources:
  mail:
    preset: koltrix
    secrets: [{env: KOLTRIX_SECRET}]
    effects:
      - {name: told, http: {url: %[1]q, secret: {env: EFFECT_SECRET}}}
      - {name: complaints, on: change, statuses: [complained], http: {url: %[1]q, secret: {env: EFFECT_SECRET}}}
  calm:
    preset: koltrix
    secrets: [{env: KOLTRIX_SECRET}]
`

// TestAStormOfStatusEvents has 1,000 messages of seven events each, in no order
// and three in ten of them twice, over two ingresses and three processors of
// which one is killed every second.
func TestAStormOfStatusEvents(t *testing.T) {
	t.Parallel()
	const messages = 1000
	history := []string{"sent", "delivered", "opened", "opened", "clicked", "unsubscribed", "complained"}
	s := harness.New(t)
	c := newCalls(t)
	s.Configure(fmt.Sprintf(stormConfig, c.server.URL))
	ingresses := []*harness.Service{s.StartService("ingress"), s.StartService("ingress")}
	var processors []*harness.Service
	for range 3 {
		processors = append(processors, s.StartService("processor",
			"EFFECT_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zdG9ybXMtcmVjZWl2ZXI=", "CATCHWATER_EFFECT_LEASE=30s"))
	}
	s.Exec("insert into messages (source, message_id) select s, 'm' || n from unnest(array['mail', 'calm']) s, generate_series(1, $1::integer) n", messages)

	var events []harness.Happening
	for m := 1; m <= messages; m++ {
		for n, event := range history {
			events = append(events, harness.Happening{Message: fmt.Sprintf("m%d", m), Event: event, At: 1767323000 + int64(n)})
		}
	}
	storm := slices.Clone(events)
	for _, n := range rand.Perm(len(events))[:len(events)*3/10] {
		storm = append(storm, events[n])
	}
	rand.Shuffle(len(storm), func(i, j int) { storm[i], storm[j] = storm[j], storm[i] })

	var k kills
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); k.run(processors, 20, stop) }()
	sendAll(t, storm, "/hooks/mail", ingresses)
	s.AwaitInt(2*time.Minute, len(events), "select count(*) from inbox where source = 'mail' and state = 'processed'")
	close(stop)
	<-stopped
	sendAll(t, events, "/hooks/calm", ingresses[:1])
	s.AwaitInt(2*time.Minute, 2*len(events), "select count(*) from inbox where state = 'processed'")

	const row = "message_id, status, rank, status_at, final, opened, first_opened_at, clicked, first_clicked_at"
	for _, table := range []string{
		"select " + row + " from messages where source = '%s'",
		"select message_id, type, recipient, occurred_at from message_events where source = '%s'",
		"select recipient, reason, category, occurred_at from suppressions where source = '%s'",
	} {
		mail, calm := fmt.Sprintf(table, "mail"), fmt.Sprintf(table, "calm")
		if n := s.Int("select count(*) from ((" + mail + " except all " + calm + ") union all (" + calm + " except all " + mail + ")) d"); n != 0 {
			t.Errorf("%d rows differ from those of a run in order: %s", n, mail)
		}
	}
	if n := s.Int("select count(*) from messages where status = 'complained' and opened = 2 and clicked = 1"); n != 2*messages {
		t.Errorf("%d messages stand as they should, want %d", n, 2*messages)
	}

	s.AwaitInt(3*time.Minute, len(events)+messages, "select count(*) from effects where state = 'performed'")
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) != len(events)+messages || len(c.unlike) > 0 {
		t.Errorf("%d effects were performed, want %d; %d of them with another body the next time", len(c.byKey), len(events)+messages, len(c.unlike))
	}
	again := 0
	for key, times := range c.byKey {
		switch {
		case len(times) > 2:
			t.Errorf("%s was called %d times", key, len(times))
		case len(times) == 2:
			again++
			if !k.between(times[0], times[1]) {
				t.Errorf("%s was called twice, at %v, without a kill between", key, times)
			}
		}
	}
	t.Logf("%d kills; %d of %d effects were called twice", len(k.at), again, len(c.byKey))
}

// sendAll posts events from several senders, spread over ingresses.
func sendAll(t *testing.T, events []harness.Happening, path string, ingresses []*harness.Service) {
	t.Helper()
	work := make(chan harness.Happening)
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for event := range work {
				status, err := harness.PostKoltrix(ingresses[sender%len(ingresses)].Addr, path, event.Body(), harness.Secret)
				if err != nil || status != http.StatusNoContent {
					t.Errorf("%+v: answered %d, %v", event, status, err)
				}
			}
		})
	}
	for _, event := range events {
		work <- event
	}
	close(work)
	senders.Wait()
}

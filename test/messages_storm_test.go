package test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/catchwater/catchwater/test/harness"
)

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
	receiver := harness.NewReceiver(t)
	s.Configure(fmt.Sprintf(stormConfig, receiver.URL))
	ingresses := []*harness.Service{s.StartService("ingress"), s.StartService("ingress")}
	var processors []*harness.Service
	for range 3 {
		processors = append(processors, s.StartService("processor", "CATCHWATER_EFFECT_LEASE=30s"))
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
	calls := receiver.Calls()
	if len(calls) != len(events)+messages {
		t.Errorf("%d effects were performed, want %d", len(calls), len(events)+messages)
	}
	again := 0
	for key, made := range calls {
		switch {
		case len(made) > 2:
			t.Errorf("%s was called %d times", key, len(made))
		case len(made) == 2:
			again++
			if !k.between(made[0].At, made[1].At) {
				t.Errorf("%s was called twice, at %v and %v, without a kill between", key, made[0].At, made[1].At)
			}
			if !bytes.Equal(made[0].Body, made[1].Body) {
				t.Errorf("%s was called with another body the second time", key)
			}
		}
	}
	t.Logf("%d kills; %d of %d effects were called twice", len(k.at), again, len(calls))
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

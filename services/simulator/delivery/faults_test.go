package delivery_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// counts is what a receiver has seen: requests, those whose signature is right,
// the most at once, and the bodies in order.
type counts struct {
	requests, signed, atOnce, most int
	order                          []string
}

type receiver struct {
	mu   sync.Mutex
	seen counts
}

func (r *receiver) change(f func(*counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.seen)
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	header := request.Header.Get("Webhook-Signature")
	right := header == delivery.Sign([]string{secret}, time.Now(), body)
	r.change(func(c *counts) {
		c.requests++
		c.order = append(c.order, string(body))
		if right {
			c.signed++
		}
		c.atOnce++
		c.most = max(c.most, c.atOnce)
	})
	time.Sleep(time.Millisecond) // of the bubble
	r.change(func(c *counts) { c.atOnce-- })
}

// snapshot is what was seen once all requests have ended.
func (r *receiver) snapshot() (c counts) {
	time.Sleep(time.Second) // of the bubble
	r.change(func(seen *counts) { c = *seen })
	return c
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		faults delivery.Faults
		check  func(t *testing.T, r delivery.Report, got counts)
	}{
		"none": {delivery.Faults{}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Delivered != 10 || got.requests != 10 || got.signed != 10 || r.Repeated != 0 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"drop": {delivery.Faults{Drop: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Dropped != 10 || got.requests != 0 || len(r.SubjectIDs[delivery.Dropped]) != 10 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"duplicate": {delivery.Faults{Duplicate: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Delivered != 10 || r.Attempts != 10 || r.Sends != 20 || got.requests != 20 || got.most != 2 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"repeat": {delivery.Faults{Repeat: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Delivered != 10 || r.Sends != 20 || r.Repeated != 10 || got.requests != 20 || got.most != 1 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"lose": {delivery.Faults{Lose: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Dead != 10 || got.requests != 100 || r.ByCode["200"] != 100 || !strings.Contains(r.Deliveries[0].LastError, "lost") {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"abort": {delivery.Faults{Abort: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if r.Dead != 10 || got.requests != 100 || r.ByCode["none"] != 100 || !strings.Contains(r.Deliveries[0].LastError, "closed") {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"bad signature": {delivery.Faults{BadSign: 1}, func(t *testing.T, r delivery.Report, got counts) {
			if got.requests != 10 || got.signed != 0 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"skew": {delivery.Faults{SkewSeconds: -301}, func(t *testing.T, r delivery.Report, got counts) {
			if got.requests != 10 || got.signed != 0 {
				t.Errorf("%+v, received %+v", r, got)
			}
		}},
		"delay": {delivery.Faults{DelayMs: 60_000}, func(t *testing.T, r delivery.Report, _ counts) {
			for _, d := range r.Deliveries {
				if late := d.History[0].At.Sub(d.CreatedAt); late < time.Minute || late > time.Minute+time.Second {
					t.Errorf("a first attempt was %s late, want a minute", late)
				}
			}
		}},
		"disorder": {delivery.Faults{Disorder: 60_000}, func(t *testing.T, r delivery.Report, got counts) {
			ordered := 0
			for n, d := range r.Deliveries {
				if strings.Contains(got.order[n], `"`+d.Subject.ID()+`"`) {
					ordered++
				}
			}
			if ordered == len(r.Deliveries) {
				t.Error("everything arrived in order")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				receiver := &receiver{}
				engine := start(t, receiver.ServeHTTP, func(cfg *delivery.Config) { cfg.Senders = 1 })
				engine.SetFaults(c.faults)
				for n := range 10 {
					engine.Add(&subject{id: string(rune('a' + n))})
				}
				c.check(t, idle(engine), receiver.snapshot())
			})
		})
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	for _, f := range []delivery.Faults{{Drop: 1.1}, {Duplicate: -.1}, {Lose: 2}, {Abort: 2}, {Repeat: 2}, {BadSign: 2}, {DelayMs: -1}, {Disorder: -1}} {
		if f.Validate() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	if err := (delivery.Faults{Drop: 1, Disorder: 5, SkewSeconds: -5}).Validate(); err != nil {
		t.Error(err)
	}
}

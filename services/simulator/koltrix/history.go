package koltrix

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/catchwater/catchwater/services/simulator/gate"
)

// Chances are what may happen in a message's life, for each recipient. Ratios
// are from 0 to 1.
type Chances struct {
	Bounce      float64 `json:"bounce"`      // of the messages sent; the others are delivered
	Open        float64 `json:"open"`        // of those delivered
	Reopen      float64 `json:"reopen"`      // of opens: that there is another
	Click       float64 `json:"click"`       // of opens
	Unsubscribe float64 `json:"unsubscribe"` // of those opened
	Complain    float64 `json:"complain"`    // of those opened
}

// Usual are the chances of ordinary mail.
var Usual = Chances{Bounce: .05, Open: .7, Reopen: .3, Click: .25, Unsubscribe: .04, Complain: .02}

// mostOpens bounds the opens of one recipient, whatever the chances.
const mostOpens = 20

// Validate says what is out of range.
func (c Chances) Validate() error {
	return errors.Join(gate.Ratio("bounce", c.Bounce), gate.Ratio("open", c.Open), gate.Ratio("reopen", c.Reopen),
		gate.Ratio("click", c.Click), gate.Ratio("unsubscribe", c.Unsubscribe), gate.Ratio("complain", c.Complain))
}

// Step is an event of a history that is given.
type Step struct {
	// Event is the event's type; message. is put before a name without a dot.
	Event string `json:"event"`
	// To is whom it is about; the message's first recipient when not given.
	To string `json:"to"`
	// Timestamp is in unix seconds. When not given, timestamps rise: to now, where a
	// history has happened already.
	Timestamp int64 `json:"timestamp"`
	// NoDelivery leaves no trace but in the API: the event that never arrives.
	NoDelivery bool `json:"noDelivery"`
}

// UnmarshalJSON reads a step, or the type alone.
func (s *Step) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.Event) == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	type plain Step
	return decoder.Decode((*plain)(s))
}

// eventType is the step's type in full.
func (s Step) eventType() string {
	if strings.Contains(s.Event, ".") {
		return s.Event
	}
	return prefix + s.Event
}

// planned is an event that is still to happen.
type planned struct {
	Step
	after time.Duration // since the message was made, before the time scale
}

// plausible makes up what happens to each recipient, in order of time. A step is
// about how long something takes that takes its time.
func plausible(recipients []string, c Chances, step time.Duration, random *rand.Rand) []planned {
	var plan []planned
	about := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (.5 + random.Float64())) }
	hit := func(ratio float64) bool { return random.Float64() < ratio }
	for _, to := range recipients {
		at := about(step / 2)
		happens := func(eventType string, wait time.Duration) {
			at += about(wait)
			plan = append(plan, planned{Step{Event: eventType, To: to}, at})
		}
		happens(Sent, 0)
		if hit(c.Bounce) {
			happens(Bounced, step/2)
			continue
		}
		happens(Delivered, step/2)
		if !hit(c.Open) {
			continue
		}
		for opens := 1; ; opens++ {
			happens(Opened, step)
			if hit(c.Click) {
				happens(Clicked, step/2)
			}
			if opens == mostOpens || !hit(c.Reopen) {
				break
			}
		}
		if hit(c.Unsubscribe) {
			happens(Unsubscribed, step)
		}
		if hit(c.Complain) {
			happens(Complained, step)
		}
	}
	slices.SortStableFunc(plan, func(a, b planned) int { return cmp.Compare(a.after, b.after) })
	return plan
}

package source

import (
	"net/url"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Reconcile says how to ask the provider about a subject, and when.
type Reconcile struct {
	BaseURL string    // of the provider's API, without a trailing slash
	Token   SecretRef // the API's bearer key
	// After is how long after its submission a task without a result is asked
	// for; past Horizon it needs investigation, and is asked for every Rare.
	After   time.Duration
	Horizon time.Duration
	Rare    time.Duration
	// Interval is how long after an answer that is not final a task is asked for
	// again, while it is within the horizon.
	Interval time.Duration
	Rate     float64       // polls a second, over all reconcilers
	Timeout  time.Duration // of one poll
}

// reconcile reads how the provider is asked; polls says whether it can be.
func (r *reader) reconcile(key string, node ast.Node, s *Source, polls bool) {
	if !polls {
		r.fail(node, key, "only preset answerline can be asked for results")
		return
	}
	c := &Reconcile{
		After: time.Hour,
		// 4 h until a task starts, 5 min until it ends, 43 min of delivery retries.
		Horizon: 4*time.Hour + 5*time.Minute + 43*time.Minute,
		Rare:    6 * time.Hour, Interval: 5 * time.Minute, Rate: 5, Timeout: 30 * time.Second,
	}
	r.mapping(key, node, map[string]field{
		"base_url": r.nonEmpty(&c.BaseURL),
		"token":    r.secret(&c.Token),
		"after":    r.duration(&c.After, time.Millisecond),
		"horizon":  r.duration(&c.Horizon, time.Millisecond),
		"rare":     r.duration(&c.Rare, time.Millisecond),
		"interval": r.duration(&c.Interval, time.Millisecond),
		"rate":     r.number(&c.Rate, 0.001, 10_000),
		"timeout":  r.duration(&c.Timeout, time.Millisecond),
	})
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		r.fail(node, key+".base_url", "%q is not an http or https URL", c.BaseURL)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.Token == (SecretRef{}) {
		r.fail(node, key+".token", "name the place of the API's bearer key, such as {env: ANSWERLINE_API_KEY}")
	}
	if c.Horizon < c.After {
		r.fail(node, key+".horizon", "%s is before after, %s", c.Horizon, c.After)
	}
	s.Reconcile = c
}

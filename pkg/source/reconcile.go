package source

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Reconcile says how to ask the provider about a subject, and when. A subject
// is a task, or, at a source of messages, a message.
type Reconcile struct {
	BaseURL string    // of the provider's API, without a trailing slash
	Token   SecretRef // the API's bearer key
	// After is how long after its submission a task without a result, or after
	// its registration a message without a final status, is asked for; past
	// Horizon it needs investigation, and is asked for every Rare.
	After   time.Duration
	Horizon time.Duration
	Rare    time.Duration
	// Interval is how long after an answer that is not final a subject is asked
	// for again, while it is within the horizon.
	Interval time.Duration
	Rate     float64       // polls a second, over all reconcilers
	Timeout  time.Duration // of one poll

	path   string // of a message's status, with pathID once; empty for tasks
	answer answerRules
}

// pathID stands in Reconcile.path for the message's id.
const pathID = "{id}"

// Path is where the API below BaseURL has the status of a message.
func (c *Reconcile) Path(id string) string {
	before, after, _ := strings.Cut(c.path, pathID)
	if strings.Contains(before, "?") {
		return before + url.QueryEscape(id) + after
	}
	return before + url.PathEscape(id) + after
}

// The times of tasks and of messages where the settings do not say.
var (
	taskTimes = Reconcile{
		After: time.Hour,
		// 4 h until a task starts, 5 min until it ends, 43 min of delivery retries.
		Horizon: 4*time.Hour + 5*time.Minute + 43*time.Minute,
		Rare:    6 * time.Hour, Interval: 5 * time.Minute,
	}
	// Mail servers try for three days to hand a message over.
	messageTimes = Reconcile{After: time.Hour, Horizon: 72 * time.Hour, Rare: 24 * time.Hour, Interval: time.Hour}
)

// reconcile reads how the provider of a source is asked. All else of the source
// has been read: what a delivery says is where an answer's places begin.
func (r *reader) reconcile(key string, node ast.Node, s *Source, p preset, rules rules, m messageSettings) *Reconcile {
	ofMessages := s.Projection == ProjectionMessages
	c := taskTimes
	switch {
	case ofMessages:
		c = messageTimes
		c.path = p.path
	case !p.polls:
		r.fail(node, key, "only preset answerline, and sources with projection: messages, can be asked")
		return nil
	case !rules.keyIsTaskID():
		r.fail(node, key, "a result that is asked for is known by its task's id, so key must be [task.id]")
		return nil
	}
	c.Rate, c.Timeout = 5, 30*time.Second
	answer := p.answer
	var pathNode, answerNode ast.Node
	r.mapping(key, node, map[string]field{
		"base_url": r.nonEmpty(&c.BaseURL),
		"token":    r.secret(&c.Token),
		"path":     func(key string, node ast.Node) { pathNode = node; r.text(&c.path)(key, node) },
		"answer":   func(key string, node ast.Node) { answerNode = node; r.answer(key, node, &answer) },
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
	if !ofMessages {
		const elsewhere = "it is for projection: messages only"
		if pathNode != nil {
			r.fail(pathNode, key+".path", elsewhere)
		}
		if answerNode != nil {
			r.fail(answerNode, key+".answer", elsewhere)
		}
		return &c
	}
	if !isPath(c.path) {
		r.fail(cmp.Or(pathNode, node), key+".path", "%q is not a path to a message's status, such as /v1/messages/%s, with %s once", c.path, pathID, pathID)
	}
	c.answer = r.answerOf(key+".answer", cmp.Or(answerNode, node), answer, rules, m)
	if s.Messages != nil {
		s.Messages.answer = c.answer.details
	}
	return &c
}

// isPath says whether a text is a path of an API with pathID in it once.
func isPath(path string) bool {
	parsed, err := url.Parse(strings.Replace(path, pathID, "id", 1))
	return err == nil && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && strings.Count(path, pathID) == 1 && parsed.Fragment == "" &&
		!strings.ContainsAny(path, " #")
}

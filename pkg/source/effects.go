package source

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Effect is something that is to happen because of a processed event, once for
// each event that it matches. One of HTTP, Slack, NATS and Handler is set.
type Effect struct {
	Name string // unique within its source
	// OnChange: only events that changed what the projection holds about their
	// subject.
	OnChange bool
	// Types and Statuses are those of the events that it is for; nil for all.
	Types    []string
	Statuses []string

	HTTP    *HTTPEffect
	Slack   *SlackEffect
	NATS    *NATSEffect
	Handler string // the name of one that a Go program registered
	// Transaction: the handler runs within the projection's transaction, and what
	// follows has no meaning.
	Transaction bool

	Timeout     time.Duration // of one call
	MaxAttempts int           // until it is given up
	// RetryBase is the longest wait after the first failure; it doubles with each,
	// up to RetryMax.
	RetryBase time.Duration
	RetryMax  time.Duration
}

// HTTPEffect is a signed POST to an endpoint.
type HTTPEffect struct {
	URL     string
	Secret  SecretRef // of Standard Webhooks' form: base64 after whsec_
	Body    EffectBody
	Headers []EffectHeader // sorted by name
}

// EffectHeader is a header of each call: a value, or the place of one.
type EffectHeader struct {
	Name  string // canonical
	Value string
	Place SecretRef // where Value is empty
}

// SlackEffect is a message to an incoming webhook of Slack's kind.
type SlackEffect struct {
	URL  SecretRef // whoever knows it may post, so it is a secret
	Text Template
}

// NATSEffect is a publish on the broker.
type NATSEffect struct {
	Subject string
	Confirm NATSConfirm
	Body    EffectBody
}

// EffectBody says what a call carries.
type EffectBody string

// The bodies.
const (
	BodyEvent EffectBody = "event" // JSON with what is known of the event, and the delivery in it
	BodyRaw   EffectBody = "raw"   // the delivery's own bytes
)

// NATSConfirm says when a publish counts as done.
type NATSConfirm string

// The confirmations.
const (
	ConfirmStream NATSConfirm = "stream" // a JetStream stream has stored it
	ConfirmServer NATSConfirm = "server" // the server has taken it, whoever listens
)

// Matches says whether the effect is for an event of a type, which gave its
// subject a status (or none), and may have changed it.
func (e *Effect) Matches(eventType, status string, changed bool) bool {
	return (!e.OnChange || changed) &&
		(e.Types == nil || slices.Contains(e.Types, eventType)) &&
		(e.Statuses == nil || slices.Contains(e.Statuses, status))
}

const (
	// maxEffects keeps what one event costs within reason.
	maxEffects = 32
	// maxEffectTimeout bounds a call, since a stop waits for it.
	maxEffectTimeout = 5 * time.Minute
)

// effects reads the effects of a source.
func (r *reader) effects(key string, node ast.Node, s *Source) {
	names := make(map[string]bool)
	r.list(key, node, func(key string, node ast.Node) {
		faults := len(r.errs)
		e := r.effect(key, node)
		if len(r.errs) > faults {
			return
		}
		if names[e.Name] {
			r.fail(node, key+".name", "%q is the name of another effect of this source", e.Name)
		}
		names[e.Name] = true
		s.Effects = append(s.Effects, e)
	})
	if len(s.Effects) > maxEffects {
		r.fail(node, key, "there are %d; a source may have %d", len(s.Effects), maxEffects)
	}
}

func (r *reader) effect(key string, node ast.Node) *Effect {
	e := &Effect{Timeout: 10 * time.Second, MaxAttempts: 20, RetryBase: time.Second, RetryMax: 15 * time.Minute}
	on, transaction := "event", "false"
	attempts := float64(e.MaxAttempts)
	var kinds, repeating []string
	kind := func(name string, read field) field {
		return func(key string, node ast.Node) { kinds = append(kinds, name); read(key, node) }
	}
	repeat := func(name string, read field) field {
		return func(key string, node ast.Node) { repeating = append(repeating, name); read(key, node) }
	}
	fields := map[string]field{
		"name":         r.text(&e.Name),
		"on":           choice(r, &on, "event", "change"),
		"types":        r.filter(&e.Types),
		"statuses":     r.filter(&e.Statuses),
		"http":         kind("http", func(key string, node ast.Node) { e.HTTP = r.httpEffect(key, node) }),
		"slack":        kind("slack", func(key string, node ast.Node) { e.Slack = r.slackEffect(key, node) }),
		"nats":         kind("nats", func(key string, node ast.Node) { e.NATS = r.natsEffect(key, node) }),
		"handler":      kind("handler", r.nonEmpty(&e.Handler)),
		"transaction":  choice(r, &transaction, "true", "false"),
		"timeout":      repeat("timeout", r.duration(&e.Timeout, time.Millisecond)),
		"max_attempts": repeat("max_attempts", r.number(&attempts, 1, 1000)),
		"retry_base":   repeat("retry_base", r.duration(&e.RetryBase, time.Millisecond)),
		"retry_max":    repeat("retry_max", r.duration(&e.RetryMax, time.Millisecond)),
	}
	given := make(map[string]ast.Node) // the keys' values, so that faults name their lines
	for name, read := range fields {
		fields[name] = func(key string, node ast.Node) { given[name] = node; read(key, node) }
	}
	r.mapping(key, node, fields)
	e.OnChange, e.Transaction, e.MaxAttempts = on == "change", transaction == "true", int(attempts)
	switch {
	case given["name"] == nil:
		r.fail(node, key+".name", "give the effect a name: it stands in its rows and in its idempotency keys, and must stay the same")
	case !sourceName.MatchString(e.Name):
		r.fail(given["name"], key+".name", "%q: a name has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or digit", e.Name)
	}
	if len(kinds) != 1 {
		r.fail(node, key, "give one of http, slack, nats and handler")
	}
	switch {
	case e.Transaction && e.Handler == "":
		r.fail(given["transaction"], key+".transaction", "only a handler can run within the transaction")
	case e.Transaction && len(repeating) > 0:
		r.fail(given[repeating[0]], key+"."+repeating[0], "a handler within the transaction is tried again with its event, as the processor's settings say")
	}
	if attempts != float64(e.MaxAttempts) {
		r.fail(given["max_attempts"], key+".max_attempts", "%v is not a whole number", attempts)
	}
	if e.Timeout > maxEffectTimeout {
		r.fail(given["timeout"], key+".timeout", "%s is too long: use at most %s", e.Timeout, maxEffectTimeout)
	}
	if e.RetryMax < e.RetryBase {
		r.fail(cmp.Or(given["retry_max"], given["retry_base"]), key+".retry_max", "%s is less than retry_base, %s", e.RetryMax, e.RetryBase)
	}
	return e
}

// filter reads a list of what an effect is for. An empty one would be for
// nothing, which is not what somebody who writes it means.
func (r *reader) filter(into *[]string) field {
	return func(key string, node ast.Node) {
		r.texts(into)(key, node)
		if sequence, ok := node.(*ast.SequenceNode); ok && len(sequence.Values) == 0 {
			r.fail(node, key, "the list is empty; leave the key out for an effect of all")
		}
	}
}

// effectsFit checks what effects ask for against what the source's projection
// can say.
func (r *reader) effectsFit(key string, node ast.Node, s *Source) {
	given := s.statuses()
	for _, e := range s.Effects {
		if s.Projection == ProjectionNone {
			switch {
			case e.OnChange:
				r.fail(node, key, "effect %q is on: change, and projection none changes nothing; use on: event", e.Name)
			case e.Statuses != nil:
				r.fail(node, key, "effect %q is for some statuses, and projection none gives none; use types", e.Name)
			}
			continue
		}
		for _, status := range e.Statuses {
			if !slices.Contains(given, status) {
				r.fail(node, key, "effect %q is for the status %q, which no event of this source gives; there are %s",
					e.Name, status, strings.Join(given, ", "))
			}
		}
	}
}

// statuses are those that events of the source give their subjects, sorted.
func (s *Source) statuses() []string {
	switch {
	case s.Projection == ProjectionAnswers:
		return []string{"COMPLETED", "FAILED"}
	case s.Messages != nil:
		names := make(map[string]bool)
		for _, status := range s.Messages.statuses {
			names[status.Name] = true
		}
		return slices.Sorted(maps.Keys(names))
	}
	return nil
}

func (r *reader) httpEffect(key string, node ast.Node) *HTTPEffect {
	c := &HTTPEffect{Body: BodyEvent}
	faults := len(r.errs)
	r.mapping(key, node, map[string]field{
		"url":     r.nonEmpty(&c.URL),
		"secret":  r.secret(&c.Secret),
		"body":    choice(r, &c.Body, BodyEvent, BodyRaw),
		"headers": func(key string, node ast.Node) { r.effectHeaders(key, node, c) },
	})
	if len(r.errs) > faults {
		return c
	}
	if err := CheckURL(c.URL); err != nil {
		r.fail(node, key+".url", "%v", err)
	}
	if c.Secret == (SecretRef{}) {
		r.fail(node, key+".secret", "name the place of the secret that calls are signed with, such as {env: CRM_SECRET}")
	}
	return c
}

// CheckURL says what is wrong with a URL that is to be called. It does not
// repeat the URL, which may be a secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("this is not an http or https URL")
	}
	return nil
}

// ownHeaders are what a call has by itself.
var ownHeaders = []string{
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Idempotency-Key", "Traceparent", "Content-Length", "Content-Encoding",
	"Transfer-Encoding", "Connection", "Host",
}

// headerName is what RFC 9110 calls a token.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (r *reader) effectHeaders(key string, node ast.Node, c *HTTPEffect) {
	r.each(key, node, func(name, path string, keyNode, value ast.Node) {
		h := EffectHeader{Name: http.CanonicalHeaderKey(name)}
		switch value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			r.secret(&h.Place)(path, value)
		default:
			r.text(&h.Value)(path, value)
		}
		switch {
		case !headerName.MatchString(name):
			r.fail(keyNode, path, "this is no header's name")
		case slices.Contains(ownHeaders, h.Name):
			r.fail(keyNode, path, "calls have this header already")
		case strings.ContainsAny(h.Value, "\r\n\x00"):
			r.fail(value, path, "a header's value has one line")
		}
		c.Headers = append(c.Headers, h)
	})
	slices.SortFunc(c.Headers, func(a, b EffectHeader) int { return strings.Compare(a.Name, b.Name) })
}

func (r *reader) slackEffect(key string, node ast.Node) *SlackEffect {
	c := &SlackEffect{}
	faults := len(r.errs)
	r.mapping(key, node, map[string]field{
		"url":  r.secret(&c.URL),
		"text": r.template(&c.Text),
	})
	if len(r.errs) > faults {
		return c
	}
	if c.URL == (SecretRef{}) {
		r.fail(node, key+".url", "name the place of the webhook's URL, such as {env: SLACK_URL}: whoever knows it may post, so it is a secret")
	}
	if len(c.Text.parts) == 0 {
		r.fail(node, key+".text", `give the message, such as "{subject} is now {status}"`)
	}
	return c
}

func (r *reader) natsEffect(key string, node ast.Node) *NATSEffect {
	c := &NATSEffect{Confirm: ConfirmStream, Body: BodyEvent}
	faults := len(r.errs)
	r.mapping(key, node, map[string]field{
		"subject": r.nonEmpty(&c.Subject),
		"confirm": choice(r, &c.Confirm, ConfirmStream, ConfirmServer),
		"body":    choice(r, &c.Body, BodyEvent, BodyRaw),
	})
	if len(r.errs) > faults {
		return c
	}
	switch tokens := strings.Split(c.Subject, "."); {
	case slices.Contains(tokens, "") || strings.ContainsAny(c.Subject, "*> \t\r\n\x00"):
		r.fail(node, key+".subject", "%q is not a subject to publish on, such as crm.bounced", c.Subject)
	case tokens[0] == "catchwater" || strings.HasPrefix(c.Subject, "$") || tokens[0] == "_INBOX":
		r.fail(node, key+".subject", "%q is kept for Catchwater's and the broker's own messages", c.Subject)
	}
	return c
}

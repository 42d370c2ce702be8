package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/catchwater/catchwater/pkg/jsonscan"
)

// Identity is what a verified delivery says it is.
type Identity struct {
	// Test marks a delivery that is to be acknowledged and not stored; nothing
	// else is set then.
	Test bool
	// EventKey is what the event is known by, 1 to 512 bytes of valid UTF-8.
	EventKey string
	// EventType and Subject are empty where the delivery does not say them.
	EventType string
	Subject   string
	// OccurredAt is the provider's time, zero where it is not said.
	OccurredAt time.Time
	// Quarantine is why nothing can be made of the delivery, or empty. The key
	// is then the hash of its body.
	Quarantine string
}

// ref names a value of a delivery: in the JSON body, in a form, or in a header.
type ref struct {
	kind refKind
	name string // path, field or header
}

type refKind uint8

const (
	refNone refKind = iota
	refBody
	refForm
	refHeader
	refAsked // the subject that was asked for, in answers only
)

func body(path string) ref   { return ref{refBody, path} }
func header(name string) ref { return ref{refHeader, http.CanonicalHeaderKey(name)} }

// parseRef reads a ref as the sources file writes it: a path into the JSON
// body, form:field, or header:Name.
func parseRef(text string) (ref, error) {
	if name, ok := strings.CutPrefix(text, "header:"); ok && name != "" {
		return header(name), nil
	}
	if name, ok := strings.CutPrefix(text, "form:"); ok && name != "" {
		return ref{refForm, name}, nil
	}
	if _, err := jsonscan.ParsePath(text); err != nil {
		return ref{}, err
	}
	return body(text), nil
}

func (r ref) String() string {
	switch r.kind {
	case refForm:
		return "form:" + r.name
	case refHeader:
		return "header:" + r.name
	case refAsked:
		return "none"
	}
	return r.name
}

type keyPart struct {
	ref      ref
	optional bool
}

// condition is met when a value is one of several; the zero condition never is.
type condition struct {
	ref    ref
	values []string
}

// rules say what identifies an event. Without a key its body's hash does.
type rules struct {
	key                            []keyPart
	eventType, subject, occurredAt ref
	test, provisional              condition
}

// compiledRules are rules with their paths put together for one scan.
type compiledRules struct {
	rules
	paths    []jsonscan.Path
	needForm bool
}

func (r rules) compile() compiledRules {
	c := compiledRules{rules: r}
	for _, ref := range r.refs() {
		switch ref.kind {
		case refBody:
			c.paths = append(c.paths, jsonscan.MustParsePath(ref.name)) // was parsed when it was read
		case refForm:
			c.needForm = true
		}
	}
	return c
}

// keyIsTaskID says whether an event is known by its task's id alone, as a task
// that was submitted is.
func (r rules) keyIsTaskID() bool {
	return len(r.key) == 1 && r.key[0].ref == body("task.id")
}

func (r rules) refs() []ref {
	refs := []ref{r.eventType, r.subject, r.occurredAt, r.test.ref, r.provisional.ref}
	for _, part := range r.key {
		refs = append(refs, part.ref)
	}
	return refs
}

// found holds the values of one delivery.
type found struct {
	header  http.Header
	form    url.Values
	paths   []jsonscan.Path
	values  []jsonscan.Value // nil when the body is not JSON
	jsonErr error
	given   map[ref]string // values that are known otherwise, instead of what stands there
}

// text returns a value's characters: scalars only, and nothing for a value that
// is missing, null or empty. A string that is not Unicode is repaired.
func (f *found) text(r ref) (string, bool) {
	text, _ := f.read(r)
	return text, text != ""
}

// exact is text, but a string that is not Unicode is named by the hash of what
// stands there: repairing would make different ones equal.
func (f *found) exact(r ref) (string, bool) {
	text, raw := f.read(r)
	if raw != "" {
		text = hashKey([]byte(raw))
	}
	return text, text != ""
}

// read returns a scalar's characters, and what stood there if they had to be
// repaired.
func (f *found) read(r ref) (text, raw string) {
	if text, ok := f.given[r]; ok {
		return text, ""
	}
	switch r.kind {
	case refHeader:
		if values := f.header.Values(r.name); len(values) == 1 {
			text = values[0]
		}
	case refForm:
		text = f.form.Get(r.name)
	case refBody:
		switch value := f.value(r); value.Kind {
		case jsonscan.String:
			var repaired bool
			if text, repaired = value.Text(); repaired {
				raw = string(value.Raw)
			}
		case jsonscan.Number, jsonscan.Bool:
			text = string(value.Raw)
		}
	}
	return text, raw
}

func (f *found) value(r ref) jsonscan.Value {
	i := slices.IndexFunc(f.paths, func(p jsonscan.Path) bool { return p.String() == r.name })
	if i < 0 || f.values == nil {
		return jsonscan.Value{}
	}
	return f.values[i]
}

// several says whether something stands there that is more than one value.
func (f *found) several(r ref) bool {
	switch r.kind {
	case refHeader:
		return len(f.header.Values(r.name)) > 1
	case refBody:
		kind := f.value(r).Kind
		return kind == jsonscan.Object || kind == jsonscan.Array
	}
	return false
}

func (f *found) meets(c condition) (string, bool) {
	text, ok := f.text(c.ref)
	return text, ok && slices.Contains(c.values, text)
}

// maxText bounds what is kept of a type, in bytes.
const maxText = 512

// Identify says what a verified delivery of one event is. It takes what can be
// read and never fails: a delivery that lacks its key is named by its body's
// hash and marked for quarantine, since a retry would bring the same bytes.
func (s *Source) Identify(h http.Header, content []byte) Identity {
	return s.rules.identify(h, content)
}

func (c *compiledRules) identify(h http.Header, content []byte) Identity {
	f := c.find(h, content)
	if _, test := f.meets(c.test); test {
		return Identity{Test: true}
	}
	return c.identity(f, content)
}

// find looks up all that the rules refer to.
func (c *compiledRules) find(h http.Header, content []byte) *found {
	f := &found{header: h, paths: c.paths}
	if len(f.paths) > 0 {
		f.values, f.jsonErr = jsonscan.Scan(content, f.paths...)
	}
	if c.needForm {
		f.form, _ = url.ParseQuery(string(content)) // what can be read of it
	}
	return f
}

// identity is what an event is that is no test.
func (c *compiledRules) identity(f *found, content []byte) Identity {
	var id Identity
	if text, ok := f.text(c.eventType); ok {
		id.EventType = safeText(text, maxText)
	}
	if text, ok := f.exact(c.subject); ok {
		id.Subject = bounded(text) // exactly, or two subjects could become one
	}
	if text, ok := f.text(c.occurredAt); ok {
		id.OccurredAt = readTime(text)
	}
	key, err := c.eventKey(f)
	if err != nil {
		id.Quarantine = err.Error()
	}
	if id.EventKey = key; key == "" {
		id.EventKey = hashKey(content)
	}
	return id
}

// eventKey returns the key that the rules make, or "" when the body's hash is
// to be the key; with an error when it ought not to be.
func (c *compiledRules) eventKey(f *found) (string, error) {
	if value, provisional := f.meets(c.provisional); provisional {
		return "", fmt.Errorf("%s is %s, which is not final", c.provisional.ref, value)
	}
	var texts []string
	for _, part := range c.key {
		text, ok := f.exact(part.ref)
		switch {
		case ok && len(c.key) == 1:
			texts = append(texts, text)
		case ok:
			texts = append(texts, strings.NewReplacer(`\`, `\\`, `|`, `\|`).Replace(text))
		case f.several(part.ref): // not missing either, or different events would be one
			return "", fmt.Errorf("the delivery's %s is not a single value, so it cannot identify it", part.ref)
		case part.optional:
			texts = append(texts, `\-`) // which no text is escaped to
		case part.ref.kind == refBody && f.jsonErr != nil:
			return "", fmt.Errorf("the body is not JSON: %w", f.jsonErr)
		default:
			return "", fmt.Errorf("the delivery has no %s, which identifies it", part.ref)
		}
	}
	return bounded(strings.Join(texts, "|")), nil
}

// bounded is a name as it is stored: itself, or its hash where it is longer than
// MaxEventKey or not text to Postgres.
func bounded(name string) string {
	if len(name) > MaxEventKey || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return hashKey([]byte(name))
	}
	return name
}

// MaxEventKey is the longest event key in bytes that is stored as it is; a
// longer one, or one that is not text to Postgres, is stored as its hash.
const MaxEventKey = 512

func hashKey(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

package source

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/catchwater/catchwater/pkg/jsonscan"
)

// Messages says what the events of a source with projection messages mean.
type Messages struct {
	// Create makes the first event about a message register it. Without it, events
	// wait until the message is registered.
	Create bool
	// OrphanAfter is how long an event waits until it is reported; it is kept all
	// the same.
	OrphanAfter time.Duration

	statuses map[string]Status // by event type
	delivery details           // of what is delivered
	answer   details           // of what the provider says when it is asked
}

// Status is what an event's type gives its message.
type Status struct {
	Name string
	// Rank is the status's precedence: a message keeps the highest that any of its
	// events gave it.
	Rank int
	// Final: nothing more needs to be asked about the message.
	Final bool
	// Suppress: the recipient is not to be written to again.
	Suppress bool
}

// The statuses that mean more than their rank: two are counted, and one
// suppresses within its category.
const (
	StatusOpened       = "opened"
	StatusClicked      = "clicked"
	StatusUnsubscribed = "unsubscribed"
)

// ranks are the precedences of the statuses that every source knows, by the
// Koltrix reference; delivered, which its table leaves out, stands between sent
// and opened.
var ranks = map[string]int{
	"queued": 0, "sent": 10, "delivered": 20, StatusOpened: 30, StatusClicked: 40, StatusUnsubscribed: 50, "bounced": 60, "complained": 70,
}

const (
	// finalRank is the least rank that is final where the settings do not say: the
	// provider has nothing more to do for the message.
	finalRank = 20
	// mostRank bounds ranks, either way.
	mostRank = 1_000_000
	// defaultOrphanAfter is where the settings do not say.
	defaultOrphanAfter = 24 * time.Hour
)

// suppressing are the statuses that suppress where the settings do not say.
var suppressing = []string{"bounced", "complained", StatusUnsubscribed}

// Statuses returns the statuses that messages can have, sorted: those that events
// give, and the one before any event.
func (m *Messages) Statuses() []string {
	names := []string{"queued"}
	for _, s := range m.statuses {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Status returns what an event of a type gives its message; false for a type
// that moves no status.
func (m *Messages) Status(eventType string) (Status, bool) {
	s, ok := m.statuses[eventType]
	return s, ok
}

// Details returns whom an event is about, and which category of messages; each
// is empty where the event does not say. Asked says that the content is not
// what was delivered, but what the provider said when it was asked.
func (m *Messages) Details(content []byte, asked bool) (recipient, category string) {
	if asked {
		return m.answer.read(content)
	}
	return m.delivery.read(content)
}

// details are references to what is read of an event when it is processed.
type details struct {
	recipient, category ref
}

func (d details) read(content []byte) (recipient, category string) {
	f := found{}
	for _, r := range []ref{d.recipient, d.category} {
		switch r.kind {
		case refBody:
			f.paths = append(f.paths, jsonscan.MustParsePath(r.name)) // was parsed when it was read
		case refForm:
			f.form, _ = url.ParseQuery(string(content))
		}
	}
	if len(f.paths) > 0 {
		f.values, _ = jsonscan.Scan(content, f.paths...) // what is not JSON says nothing
	}
	text := func(r ref) string {
		t, _ := f.text(r)
		return safeText(t, maxText)
	}
	return text(d.recipient), text(d.category)
}

// messageSettings are Messages as the file writes them.
type messageSettings struct {
	create          bool
	orphanAfter     time.Duration
	statuses        map[string]Status // of which name and rank are set
	final, suppress []string          // nil where not said
	details         details
}

// koltrixMessages are what the Koltrix reference says of its events.
var koltrixMessages = messageSettings{
	statuses: func() map[string]Status {
		statuses := make(map[string]Status, len(ranks))
		for name, rank := range ranks {
			statuses["message."+name] = Status{Name: name, Rank: rank}
		}
		return statuses
	}(),
	details: details{recipient: body("to"), category: body("category")},
}

// messages reads what a source's events mean, from a preset's settings on.
func (r *reader) messages(key string, node ast.Node, m *messageSettings) {
	create := "false"
	r.mapping(key, node, map[string]field{
		"create":       choice(r, &create, "true", "false"),
		"orphan_after": r.duration(&m.orphanAfter, time.Second),
		"recipient":    r.contentRef(&m.details.recipient),
		"category":     r.contentRef(&m.details.category),
		"statuses":     func(key string, node ast.Node) { r.statuses(key, node, m) },
		"final":        func(key string, node ast.Node) { r.statusNames(key, node, &m.final) },
		"suppress":     func(key string, node ast.Node) { r.statusNames(key, node, &m.suppress) },
	})
	m.create = create == "true"
	r.known(node, key+".final", m.final, m)
	r.known(node, key+".suppress", m.suppress, m)
}

// statuses reads which status each type gives: its name, or its name and rank.
func (r *reader) statuses(key string, node ast.Node, m *messageSettings) {
	m.statuses = make(map[string]Status)
	rankOf := make(map[string]int)
	r.each(key, node, func(eventType, path string, _, value ast.Node) {
		var s Status
		rank := math.NaN() // not said
		switch value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			r.mapping(path, value, map[string]field{"status": r.nonEmpty(&s.Name), "rank": r.number(&rank, -mostRank, mostRank)})
		default:
			r.nonEmpty(&s.Name)(path, value)
		}
		usual, known := ranks[s.Name]
		switch said := !math.IsNaN(rank); {
		case s.Name == "":
			r.fail(value, path, "name the status, such as %s: delivered", eventType)
		case len(s.Name) > maxStatus || safeText(s.Name, maxStatus) != s.Name:
			r.fail(value, path, "a status has at most %d bytes of text", maxStatus)
		case said && rank != math.Trunc(rank):
			r.fail(value, path, "the rank %v is not a whole number", rank)
		case said:
			s.Rank = int(rank)
		case known:
			s.Rank = usual
		default:
			r.fail(value, path, "%q is none of the statuses whose rank is known (queued 0, sent 10, delivered 20, opened 30, clicked 40, "+
				"unsubscribed 50, bounced 60, complained 70); write {status: %s, rank: …}", s.Name, s.Name)
		}
		if other, ok := rankOf[s.Name]; ok && other != s.Rank {
			r.fail(value, path, "%s has the rank %d here and %d above", s.Name, s.Rank, other)
		}
		rankOf[s.Name] = s.Rank
		m.statuses[eventType] = s
	})
	if len(m.statuses) == 0 {
		r.fail(node, key, "give at least one type a status, such as delivered: delivered")
	}
}

// maxStatus bounds a status's name, in bytes.
const maxStatus = 64

// statusNames reads a list of statuses, which may be empty.
func (r *reader) statusNames(key string, node ast.Node, into *[]string) {
	r.texts(into)(key, node)
	if *into == nil {
		*into = []string{}
	}
}

// known checks that the named statuses are among those that a type gives.
func (r *reader) known(node ast.Node, key string, names []string, m *messageSettings) {
	for _, name := range names {
		given := false
		for _, s := range m.statuses {
			given = given || s.Name == name
		}
		if !given {
			r.fail(node, key, "no type gives the status %q", name)
		}
	}
}

// contentRef reads a reference into a body: headers are not at hand when an
// event is processed.
func (r *reader) contentRef(into *ref) field {
	return func(key string, node ast.Node) {
		var read ref
		if r.refField(&read)(key, node); read.kind == refHeader {
			r.fail(node, key, "this must stand in the body, not in a header")
			return
		}
		*into = read
	}
}

// compile settles what each status means.
func (m messageSettings) compile() *Messages {
	compiled := &Messages{
		Create: m.create, OrphanAfter: cmp.Or(m.orphanAfter, defaultOrphanAfter), delivery: m.details, answer: m.details,
		statuses: make(map[string]Status, len(m.statuses)),
	}
	for eventType, s := range m.statuses {
		s.Final = s.Rank >= finalRank
		if m.final != nil {
			s.Final = slices.Contains(m.final, s.Name)
		}
		names := suppressing
		if m.suppress != nil {
			names = m.suppress
		}
		s.Suppress = slices.Contains(names, s.Name)
		compiled.statuses[eventType] = s
	}
	return compiled
}

// messagesOf checks that a source with projection messages says what it has to,
// and returns what its events mean; nil for any other projection.
func (r *reader) messagesOf(key string, keyNode, node ast.Node, s *Source, rules rules, m messageSettings) *Messages {
	if s.Projection != ProjectionMessages {
		if node != nil {
			r.fail(node, key+".messages", "it is for projection: messages only")
		}
		return nil
	}
	if len(m.statuses) == 0 {
		r.fail(cmp.Or(node, keyNode), key+".messages.statuses", "say which status each type of event gives, such as {delivered: delivered, bounce: bounced}")
	}
	var missing []string
	for _, need := range []struct {
		name string
		ref  ref
	}{{"subject", rules.subject}, {"type", rules.eventType}, {"occurred_at", rules.occurredAt}} {
		if need.ref.kind == refNone {
			missing = append(missing, need.name)
		}
	}
	if len(missing) > 0 {
		r.fail(keyNode, key, "projection messages needs %s: which message an event is about, its type, and the provider's time", strings.Join(missing, ", "))
	}
	return m.compile()
}

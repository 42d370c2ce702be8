package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/catchwater/catchwater/pkg/jsonscan"
)

// Answer is what a provider says of a message when it is asked.
type Answer struct {
	// Status is the one of the highest rank that the answer names, in its own
	// words.
	Status string
	// Final: with this status nothing more needs to be asked.
	Final bool
	// Events are what is to be stored, each under the key that its delivery has,
	// or would have had.
	Events []Event
	// Unusable is why nothing can be made of the answer, or of a part of it.
	Unusable string
}

// answerRules say what a provider's answer about a message means.
type answerRules struct {
	compiledRules                // of an event, once its type is known
	details       details        // of what is stored
	events        *jsonscan.Path // where the answer's array of events stands; nil when it is one event
	types         map[string]string
	statuses      map[string]Status
}

// noEvent is what types has for a status that no event stands for.
const noEvent = "none"

// ReadAnswer reads what the provider says of a message that it was asked for.
// It is for sources of messages that have Reconcile. Its error says that the
// answer is not JSON, which another may be.
func (s *Source) ReadAnswer(message string, content []byte) (Answer, error) {
	rules := &s.Reconcile.answer
	bodies := [][]byte{content}
	if rules.events != nil {
		var syntax *jsonscan.SyntaxError
		var err error
		if bodies, err = elements(content, *rules.events); errors.As(err, &syntax) {
			return Answer{}, err
		} else if err != nil {
			return Answer{Unusable: err.Error()}, nil //nolint:nilerr // nothing failed; it is what there is to say of the answer
		}
	}
	var answer Answer
	highest := -mostRank - 1
	for _, body := range bodies {
		said, err := rules.read(message, body)
		if err != nil {
			return Answer{}, err
		}
		switch {
		case said.unusable != "":
			answer.Unusable = said.unusable
			continue
		case said.eventType == noEvent:
			answer.Status = cmp.Or(answer.Status, said.status)
			continue
		}
		answer.Events = append(answer.Events, Event{Identity: said.identity, Body: body})
		if status := rules.statuses[said.eventType]; status.Rank > highest {
			answer.Status, answer.Final, highest = said.status, status.Final, status.Rank
		}
	}
	return answer, nil
}

// said is what one event of an answer says.
type said struct {
	status    string // in the answer's own words
	eventType string // what that is as it would be delivered, or noEvent
	identity  Identity
	unusable  string // why the rest is not to be used, or empty
}

func (a *answerRules) read(message string, body []byte) (said, error) {
	f := a.find(nil, body)
	if f.jsonErr != nil {
		return said{}, fmt.Errorf("the answer is not JSON: %w", f.jsonErr)
	}
	unusable := func(format string, args ...any) (said, error) {
		return said{unusable: fmt.Sprintf(format, args...)}, nil
	}
	asked := ref{kind: refAsked}
	f.given = map[ref]string{asked: message}
	if subject, ok := f.exact(a.subject); !ok || bounded(subject) != message {
		return unusable("the answer is about message %.80q", subject)
	}
	status, ok := f.text(a.eventType)
	if !ok {
		return unusable("the answer has no status at %s", a.eventType)
	}
	status = safeText(status, maxText)
	eventType, ok := a.typeOf(status)
	if !ok {
		return unusable("the answer says %.80q, which is no status that reconcile.answer.types or messages.statuses names", status)
	}
	if eventType == noEvent {
		return said{status: status, eventType: noEvent}, nil
	}
	f.given[a.eventType] = eventType
	identity := a.identity(f, body)
	switch {
	case identity.Quarantine != "":
		return unusable("the answer cannot have its delivery's key: %s", identity.Quarantine)
	case identity.OccurredAt.IsZero():
		return unusable("the answer has no time that can be read at %s", a.occurredAt)
	}
	return said{status: status, eventType: eventType, identity: identity}, nil
}

// typeOf is the type that an event has which an answer's status stands for.
func (a *answerRules) typeOf(status string) (string, bool) {
	if eventType, ok := a.types[status]; ok {
		return eventType, true
	}
	_, known := a.statuses[status]
	return status, known
}

// answerSettings are answerRules as the file writes them. A reference that is
// not given is the delivery's own.
type answerSettings struct {
	eventType, subject, occurredAt, recipient, category ref
	key                                                 []ref
	events                                              *jsonscan.Path
	types                                               map[string]string
	typesGiven                                          bool // in the file
}

// koltrixAnswer is of the status that the API tells: without the types' prefix,
// and with the time and the recipient of the event that set it.
var koltrixAnswer = answerSettings{
	eventType: body("status"),
	types: func() map[string]string {
		types := make(map[string]string, len(ranks))
		for name := range ranks {
			types[name] = "message." + name
		}
		types["queued"] = noEvent // before any event
		return types
	}(),
}

// answer reads what an answer says, and where.
func (r *reader) answer(key string, node ast.Node, a *answerSettings) {
	r.mapping(key, node, map[string]field{
		"events":      r.path(&a.events),
		"type":        r.answerRef(&a.eventType),
		"subject":     r.answerSubject(&a.subject),
		"occurred_at": r.answerRef(&a.occurredAt),
		"recipient":   r.answerRef(&a.recipient),
		"category":    r.answerRef(&a.category),
		"key": func(key string, node ast.Node) {
			a.key = nil
			r.list(key, node, func(key string, node ast.Node) {
				var part ref
				r.answerRef(&part)(key, node)
				a.key = append(a.key, part)
			})
		},
		"types": func(key string, node ast.Node) {
			a.types, a.typesGiven = make(map[string]string), true
			r.each(key, node, func(status, path string, _, value ast.Node) {
				eventType := ""
				r.nonEmpty(&eventType)(path, value)
				a.types[status] = eventType
			})
		},
	})
}

// answerRef reads a path into an answer.
func (r *reader) answerRef(into *ref) field {
	return func(key string, node ast.Node) {
		var read ref
		if r.refField(&read)(key, node); read.kind == refForm || read.kind == refHeader {
			r.fail(node, key, "an answer is JSON; give a path into it")
			return
		}
		*into = read
	}
}

// answerSubject is answerRef, or none where answers do not name their message.
func (r *reader) answerSubject(into *ref) field {
	return func(key string, node ast.Node) {
		if text, ok := node.(*ast.StringNode); ok && text.Value == "none" {
			*into = ref{kind: refAsked}
			return
		}
		r.answerRef(into)(key, node)
	}
}

// answerOf settles where everything stands in an answer: where the settings do
// not say, where it stands in a delivery.
func (r *reader) answerOf(key string, node ast.Node, a answerSettings, delivery rules, m messageSettings) answerRules {
	here := func(name string, answered, delivered ref) ref {
		switch {
		case answered.kind != refNone:
			return answered
		case delivered.kind == refForm || delivered.kind == refHeader:
			r.fail(node, key+"."+name, "a delivery has it at %s; say where it stands in an answer, which is JSON", delivered)
		}
		return delivered
	}
	resolved := rules{
		eventType:  here("type", a.eventType, delivery.eventType),
		subject:    here("subject", a.subject, delivery.subject),
		occurredAt: here("occurred_at", a.occurredAt, delivery.occurredAt),
	}
	inBody := func(answered, delivered ref) ref { // where it need not be said
		if answered.kind == refNone && delivered.kind == refBody {
			return delivered
		}
		return answered
	}
	said := details{recipient: inBody(a.recipient, m.details.recipient), category: inBody(a.category, m.details.category)}
	resolved.key = r.answerKey(key, node, a.key, delivery.key, map[ref]ref{
		delivery.eventType: resolved.eventType, delivery.subject: resolved.subject, delivery.occurredAt: resolved.occurredAt,
		m.details.recipient: said.recipient,
	})
	statuses := m.compile().statuses
	for _, status := range slices.Sorted(maps.Keys(a.types)) {
		if _, known := statuses[a.types[status]]; !known && a.types[status] != noEvent && a.typesGiven {
			r.fail(node, key+".types."+status, "messages.statuses has no type %q; name one of it, or none", a.types[status])
		}
	}
	return answerRules{compiledRules: resolved.compile(), details: said, events: a.events, types: a.types, statuses: statuses}
}

// answerKey settles where the parts of a delivery's key stand in an answer. What
// has moved there, by the other settings, is looked for where it has moved to.
func (r *reader) answerKey(key string, node ast.Node, given []ref, delivery []keyPart, moved map[ref]ref) []keyPart {
	switch {
	case len(delivery) == 0:
		r.fail(node, key, "an event that is asked for must have the key of its delivery, so the source's key cannot be body_hash")
		return nil
	case given != nil && len(given) != len(delivery):
		r.fail(node, key+".key", "it has %d parts, and the source's key has %d; name the place of each, in the same order", len(given), len(delivery))
		return nil
	}
	parts := slices.Clone(delivery)
	for i, part := range delivery {
		place := part.ref
		if at, ok := moved[place]; ok {
			place = at
		}
		if given != nil {
			place = given[i]
		}
		if place.kind != refBody && place.kind != refAsked {
			r.fail(node, key+".key", "the source's key has %s; say where each of its parts stands in an answer, which is JSON", part.ref)
			return nil
		}
		parts[i].ref = place
	}
	return parts
}

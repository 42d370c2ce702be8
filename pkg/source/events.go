package source

import (
	"fmt"
	"net/http"

	"github.com/catchwater/catchwater/pkg/jsonscan"
)

// Event is one of those that a delivery holds.
type Event struct {
	Identity
	// Body is what is to be stored: the delivery's signed bytes, or, of a body that
	// holds an array of events, the one element's bytes as they stand there.
	Body []byte
}

// MaxEvents is how many events one body may hold.
const MaxEvents = 10_000

// Events returns what a verified delivery holds. Signed are the bytes that were
// verified, content the same before any compression. A source whose bodies hold
// arrays has one event for each element that is no test, each with a key of its
// own, so that it does not matter how a sender bundles them. A body from which no
// array can be taken is one event, for quarantine.
func (s *Source) Events(h http.Header, signed, content []byte) []Event {
	if s.events == nil {
		return []Event{{Identity: s.Identify(h, content), Body: signed}}
	}
	elements, err := elements(content, *s.events)
	if err == nil && len(elements) == 0 {
		err = fmt.Errorf("the array of events at %s is empty", s.events)
	}
	if err != nil {
		return []Event{{Identity: Identity{EventKey: hashKey(content), Quarantine: err.Error()}, Body: signed}}
	}
	events := make([]Event, 0, len(elements))
	for _, element := range elements {
		if id := s.Identify(h, element); !id.Test {
			events = append(events, Event{Identity: id, Body: element})
		}
	}
	return events
}

// elements takes the array of events out of a body. An error that wraps a
// *jsonscan.SyntaxError says that the body is not JSON.
func elements(content []byte, array jsonscan.Path) ([][]byte, error) {
	values, err := jsonscan.Scan(content, array)
	if err != nil {
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if values[0].Kind != jsonscan.Array {
		return nil, fmt.Errorf("there is no array of events at %s", array)
	}
	elements := jsonscan.Elements(values[0])
	if len(elements) > MaxEvents {
		return nil, fmt.Errorf("the array of events at %s has %d; one body may hold %d", array, len(elements), MaxEvents)
	}
	return elements, nil
}

package effects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/catchwater/catchwater/pkg/inbox"
)

// Event is a processed event, as handlers and targets see it.
type Event struct {
	Source   string
	EventKey string // with Source the event's identity
	// Type and Subject are empty where the delivery does not say them.
	Type    string
	Subject string
	// OccurredAt is the provider's time of the event, zero where not said.
	OccurredAt time.Time
	ReceivedAt time.Time
	Origin     inbox.Origin
	Body       []byte // exactly as it was signed
	// Headers are those of the delivery that were kept; not known to handlers
	// within the transaction.
	Headers map[string]string
	// Change is what the event did to its subject.
	Change Change
}

// Change is what an event did to its subject. It is zero where the event gave its
// subject no status.
type Change struct {
	Status string `json:"status"`
	// Previous is the subject's status before a change, empty where it had none.
	Previous string `json:"previous,omitempty"`
	// Changed says that the subject has newly got the status. An event that comes
	// late, or says what is known, changes nothing.
	Changed bool `json:"changed"`
}

// At is the provider's time of the event, or that of its receipt where the
// provider did not say.
func (e *Event) At() time.Time {
	if e.OccurredAt.IsZero() {
		return e.ReceivedAt.UTC()
	}
	return e.OccurredAt.UTC()
}

// Row is the event's inbox row, as far as its body goes.
func (e *Event) Row() inbox.Row { return inbox.Row{Body: e.Body} }

// message is the form in which an event is told to others: that of Standard
// Webhooks' examples, type, timestamp and data, and what else is known.
type message struct {
	Type       string          `json:"type"`
	Timestamp  time.Time       `json:"timestamp"`
	Source     string          `json:"source"`
	EventKey   string          `json:"event_key"`
	Subject    string          `json:"subject,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	DataBase64 []byte          `json:"data_base64,omitempty"`
	Change     *Change         `json:"change,omitempty"`
}

// JSON is the event as one JSON object: type, timestamp, source, event_key,
// subject, data (the delivery's body where that is JSON, else data_base64), and
// change where the event gave its subject a status. It is the same however often
// it is made.
func (e *Event) JSON() ([]byte, error) {
	m := message{Type: e.Type, Timestamp: e.At(), Source: e.Source, EventKey: e.EventKey, Subject: e.Subject}
	row := e.Row()
	if content, err := row.Content(); err == nil && utf8.Valid(content) && json.Valid(content) {
		m.Data = content
	} else {
		m.DataBase64 = e.Body
	}
	if e.Change != (Change{}) {
		m.Change = &e.Change
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // data is to stay as it was sent
	if err := encoder.Encode(m); err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// maxKey bounds an idempotency key, in bytes: what receivers commonly take.
const maxKey = 255

// IdempotencyKey is what a call for an effect is known by, however often it is
// made: "<source>:<effect>:<event key>", where all but letters, digits and
// -_~:@/+= is percent-encoded; "sha256:<hex of that>" where it is longer than 255
// bytes. Different effects and events never have the same.
func IdempotencyKey(source, effect, eventKey string) string {
	var key strings.Builder
	for _, b := range []byte(source + ":" + effect + ":" + eventKey) {
		switch {
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-_~:@/+=", b) >= 0:
			key.WriteByte(b)
		default: // a full stop too, which parts what Standard Webhooks signs
			fmt.Fprintf(&key, "%%%02X", b)
		}
	}
	if key.Len() <= maxKey {
		return key.String()
	}
	sum := sha256.Sum256([]byte(key.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

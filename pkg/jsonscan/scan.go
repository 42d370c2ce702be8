// Package jsonscan reads values at given paths out of raw JSON, in one pass and
// without changing a byte of it.
//
// The whole document is checked against RFC 8259, so that what is taken out of
// it was taken out of JSON; only UTF-8 is not insisted on, since senders break
// it and their bytes are kept all the same. Where an object has a key twice the
// last one counts, as it does in encoding/json and in jsonb.
package jsonscan

import (
	"bytes"
	"fmt"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may be nested: as deep as
// encoding/json takes them.
const MaxDepth = 10_000

// MaxPaths is how many paths one Scan takes.
const MaxPaths = 64

// Kind is the type of a JSON value.
type Kind uint8

// The kinds; Missing is a path that leads nowhere.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

func (k Kind) String() string {
	return [...]string{"missing", "null", "bool", "number", "string", "object", "array"}[k]
}

// Value is a value inside a document. Raw is the part of the document that it
// stands in, quotes and all; it is not a copy.
type Value struct {
	Kind Kind
	Raw  []byte
}

// SyntaxError says where a document stops being JSON.
type SyntaxError struct {
	Offset int // in bytes, from 0
	What   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.What) }

// Scan returns the value at each path, in the order of the paths. Its error is
// a *SyntaxError: the document is not JSON. It panics on more than MaxPaths.
func Scan(body []byte, paths ...Path) ([]Value, error) {
	if len(paths) > MaxPaths {
		panic("jsonscan: too many paths")
	}
	s := scanner{in: body, paths: paths, values: make([]Value, len(paths))}
	s.space()
	if err := s.value(0, 1<<len(paths)-1); err != nil {
		return nil, err
	}
	s.space()
	if s.pos < len(body) {
		return nil, s.fail("there is more after the document's end")
	}
	return s.values, nil
}

// Elements returns the elements of an array that Scan has found, in their order.
// They are parts of the document, not copies. What is not an array has none.
func Elements(array Value) [][]byte {
	if array.Kind != Array {
		return nil
	}
	var elements [][]byte
	s := scanner{in: array.Raw, pos: 1}
	for {
		s.space()
		if s.peek() == ',' {
			s.pos++
			s.space()
		}
		start := s.pos
		if s.peek() == ']' || s.value(1, 0) != nil { // which it was before, and has no error
			return elements
		}
		elements = append(elements, s.in[start:s.pos])
	}
}

type scanner struct {
	in     []byte
	pos    int
	paths  []Path
	values []Value
}

func (s *scanner) fail(what string) error {
	if s.pos >= len(s.in) {
		what = "the document ends early"
	}
	return &SyntaxError{Offset: s.pos, What: what}
}

func (s *scanner) space() {
	for s.pos < len(s.in) {
		switch s.in[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte, and 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.in) {
		return s.in[s.pos]
	}
	return 0
}

// value reads a value at a depth. Bit i of active says that path i has led
// here so far.
func (s *scanner) value(depth int, active uint64) error {
	start := s.pos
	kind, err := s.any(depth, active)
	if err != nil {
		return err
	}
	for rest := active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if len(s.paths[i].steps) == depth {
			s.values[i] = Value{Kind: kind, Raw: s.in[start:s.pos]}
		}
	}
	return nil
}

func (s *scanner) any(depth int, active uint64) (Kind, error) {
	switch c := s.peek(); {
	case depth == MaxDepth && (c == '{' || c == '['):
		return Missing, s.fail("arrays and objects are nested too deep")
	case c == '{':
		return Object, s.object(depth, active)
	case c == '[':
		return Array, s.array(depth, active)
	case c == '"':
		_, err := s.str()
		return String, err
	case c == '-' || c >= '0' && c <= '9':
		return Number, s.number()
	case c == 't':
		return Bool, s.literal("true")
	case c == 'f':
		return Bool, s.literal("false")
	case c == 'n':
		return Null, s.literal("null")
	}
	return Missing, s.fail("no value begins like this")
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.in[s.pos:], []byte(word)) {
		return s.fail("no value begins like this")
	}
	s.pos += len(word)
	return nil
}

// forget clears what a path found under an earlier key of the same name.
func (s *scanner) forget(active uint64) {
	for rest := active; rest != 0; rest &= rest - 1 {
		s.values[bits.TrailingZeros64(rest)] = Value{}
	}
}

func (s *scanner) object(depth int, active uint64) error {
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("a key must stand here")
		}
		raw, err := s.str()
		if err != nil {
			return err
		}
		next := s.underKey(depth, active, raw)
		s.forget(next)
		s.space()
		if s.peek() != ':' {
			return s.fail(`a ":" must stand here`)
		}
		s.pos++
		s.space()
		if err := s.value(depth+1, next); err != nil {
			return err
		}
		if more, err := s.more('}'); !more {
			return err
		}
	}
}

func (s *scanner) array(depth int, active uint64) error {
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for index := 0; ; index++ {
		var next uint64
		for rest := active; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if steps := s.paths[i].steps; len(steps) > depth && steps[depth].index == index {
				next |= 1 << i
			}
		}
		if err := s.value(depth+1, next); err != nil {
			return err
		}
		if more, err := s.more(']'); !more {
			return err
		}
	}
}

// more reads what stands between two members: a comma, or the end.
func (s *scanner) more(end byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case end:
		s.pos++
		return false, nil
	}
	return false, s.fail(fmt.Sprintf(`a "," or "%c" must stand here`, end))
}

// underKey returns the active paths whose step at this depth is the key.
func (s *scanner) underKey(depth int, active uint64, raw []byte) uint64 {
	var next uint64
	var key string
	decoded := false
	for rest := active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		steps := s.paths[i].steps
		if len(steps) <= depth || steps[depth].index >= 0 {
			continue
		}
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 {
			if string(inner) == steps[depth].key {
				next |= 1 << i
			}
			continue
		}
		if !decoded {
			key, _ = unquote(raw)
			decoded = true
		}
		if key == steps[depth].key {
			next |= 1 << i
		}
	}
	return next
}

// str reads a string and returns it with its quotes.
func (s *scanner) str() ([]byte, error) {
	start := s.pos
	for s.pos++; s.pos < len(s.in); s.pos++ {
		switch c := s.in[s.pos]; {
		case c == '"':
			s.pos++
			return s.in[start:s.pos], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.fail("a control character stands in a string")
		}
	}
	return nil, s.fail("")
}

// escape reads an escape but for its last byte.
func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
			if !isHex(s.peek()) {
				return s.fail(`four hexadecimal digits must follow "\u"`)
			}
		}
		return nil
	}
	return s.fail("there is no such escape")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	if s.pos == start {
		return s.fail("a digit must stand here")
	}
	return nil
}

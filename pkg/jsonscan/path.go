package jsonscan

import (
	"fmt"
	"strconv"
	"strings"
)

// Path leads to a value inside a JSON document. The zero Path is the document
// itself.
type Path struct {
	text  string
	steps []step
}

// step is an object's key or an array's index.
type step struct {
	key   string
	index int // -1 for a key
}

// ParsePath reads a path: keys joined by dots, with brackets where a key has
// other characters than letters, digits, "_" and "-", and for array indexes.
// A leading "$" stands for the document.
//
//	task.id    $.items[0].id    ["event-data"].id    $["a.b"]
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	rest, rooted := strings.CutPrefix(text, "$")
	if rest == "" && !rooted {
		return Path{}, fmt.Errorf("read the path %q: it is empty", text)
	}
	for first := !rooted; rest != ""; first = false {
		var s step
		var err error
		switch {
		case rest[0] == '[':
			s, rest, err = bracketStep(rest)
		case rest[0] == '.' && !first:
			s, rest, err = keyStep(rest[1:])
		case first:
			s, rest, err = keyStep(rest)
		default:
			err = fmt.Errorf(`a "." or "[" must come before %q`, rest)
		}
		if err != nil {
			return Path{}, fmt.Errorf("read the path %q: %w", text, err)
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// MustParsePath is ParsePath for paths that stand in the program; it panics.
func MustParsePath(text string) Path {
	p, err := ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

func keyStep(rest string) (step, string, error) {
	end := 0
	for end < len(rest) && isKeyByte(rest[end]) {
		end++
	}
	if end == 0 {
		return step{}, "", fmt.Errorf(`a key must stand before %q; put keys with other characters in ["…"]`, rest)
	}
	return step{key: rest[:end], index: -1}, rest[end:], nil
}

func isKeyByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func bracketStep(rest string) (step, string, error) {
	if strings.HasPrefix(rest, `["`) {
		quoted, err := strconv.QuotedPrefix(rest[1:])
		if err != nil || !strings.HasPrefix(rest[1+len(quoted):], "]") {
			return step{}, "", fmt.Errorf(`%q has no closing "]`, rest)
		}
		key, err := strconv.Unquote(quoted)
		if err != nil {
			return step{}, "", fmt.Errorf("the key %s: %w", quoted, err)
		}
		return step{key: key, index: -1}, rest[len(quoted)+2:], nil
	}
	number, after, ok := strings.Cut(rest[1:], "]")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 {
		return step{}, "", fmt.Errorf(`%q is neither ["key"] nor [index]`, rest)
	}
	return step{index: index}, after, nil
}

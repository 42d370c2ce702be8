package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Template is a text with placeholders such as {subject} in it.
type Template struct {
	parts []templatePart
}

// templatePart is a piece of a template: a literal, or a placeholder's name.
type templatePart struct {
	text        string
	placeholder bool
}

// Placeholders are the names that a template may have in braces.
var Placeholders = []string{"source", "type", "subject", "status", "previous", "event_key", "time"}

// Fill returns the text with each placeholder replaced by what value returns
// for its name.
func (t Template) Fill(value func(placeholder string) string) string {
	var filled strings.Builder
	for _, p := range t.parts {
		if p.placeholder {
			filled.WriteString(value(p.text))
		} else {
			filled.WriteString(p.text)
		}
	}
	return filled.String()
}

func parseTemplate(text string) (Template, error) {
	var t Template
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			t.parts = append(t.parts, templatePart{text: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !slices.Contains(Placeholders, name) {
			bad := "{" + name
			if closed {
				bad += "}"
			}
			return Template{}, fmt.Errorf("%.42s is none of the placeholders {%s}", bad, strings.Join(Placeholders, "}, {"))
		}
		t.parts = append(t.parts, templatePart{text: name, placeholder: true})
		text = after
	}
	return t, nil
}

func (r *reader) template(into *Template) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		parsed, err := parseTemplate(text)
		if err != nil {
			r.fail(node, key, "%v", err)
			return
		}
		*into = parsed
	}
}

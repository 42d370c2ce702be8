package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/catchwater/catchwater/pkg/jsonscan"
)

// reader takes values out of a YAML tree and collects what is wrong with them,
// each with its line and key.
type reader struct {
	file string
	errs []error
}

// fail notes an error at a node. The key is the node's path, as in
// sources.answers.preset.
func (r *reader) fail(node ast.Node, key, format string, args ...any) {
	line := 1
	if node != nil && node.GetToken() != nil && node.GetToken().Position != nil {
		line = node.GetToken().Position.Line
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %s", r.file, line, key, fmt.Sprintf(format, args...)))
}

func (r *reader) err() error { return errors.Join(r.errs...) }

// field reads the value of one key.
type field func(key string, node ast.Node)

// notAnchored is said wherever an anchor or an alias stands.
const notAnchored = "anchors and aliases are not read; write the value out"

// mapping reads a mapping whose keys are all known.
func (r *reader) mapping(key string, node ast.Node, fields map[string]field) {
	r.each(key, node, func(name, path string, keyNode, value ast.Node) {
		read, ok := fields[name]
		if !ok {
			r.fail(keyNode, path, "there is no such key here; there are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			return
		}
		read(path, value)
	})
}

// each reads a mapping whose keys are free.
func (r *reader) each(key string, node ast.Node, read func(name, path string, keyNode, value ast.Node)) {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(node, cmp.Or(key, "sources"), notAnchored)
		return
	default:
		r.fail(node, cmp.Or(key, "sources"), "this must be a mapping of keys to values")
		return
	}
	for _, v := range values {
		name := v.Key.GetToken().Value
		path := name
		if key != "" {
			path = key + "." + name
		}
		read(name, path, v.Key, v.Value)
	}
}

// list reads a sequence.
func (r *reader) list(key string, node ast.Node, read field) {
	switch n := node.(type) {
	case *ast.SequenceNode:
		for i, value := range n.Values {
			read(fmt.Sprintf("%s[%d]", key, i), value)
		}
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(node, key, notAnchored)
	default:
		r.fail(node, key, "this must be a list")
	}
}

// scalar returns the text of a scalar.
func (r *reader) scalar(key string, node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.BoolNode:
		return strconv.FormatBool(n.Value), true // True is true, as it is in JSON
	case *ast.IntegerNode, *ast.FloatNode:
		return node.GetToken().Value, true
	case nil, *ast.NullNode:
		r.fail(node, key, "there is no value")
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(node, key, notAnchored)
	default:
		r.fail(node, key, "this must be a single value")
	}
	return "", false
}

func (r *reader) text(into *string) field {
	return func(key string, node ast.Node) {
		if text, ok := r.scalar(key, node); ok {
			*into = text
		}
	}
}

// nonEmpty reads text that must not be empty.
func (r *reader) nonEmpty(into *string) field {
	return func(key string, node ast.Node) {
		r.text(into)(key, node)
		if text, ok := node.(*ast.StringNode); ok && text.Value == "" {
			r.fail(node, key, "it is empty")
		}
	}
}

// choice reads one of a few words.
func choice[T ~string](r *reader, into *T, known ...T) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		if !slices.Contains(known, T(text)) {
			var words []string
			for _, k := range known {
				words = append(words, string(k))
			}
			r.fail(node, key, "%q is not one of %s", text, strings.Join(words, ", "))
			return
		}
		*into = T(text)
	}
}

func (r *reader) texts(into *[]string) field {
	return func(key string, node ast.Node) {
		*into = nil
		r.list(key, node, func(key string, node ast.Node) {
			if text, ok := r.scalar(key, node); ok {
				*into = append(*into, text)
			}
		})
	}
}

func (r *reader) duration(into *time.Duration, least time.Duration) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			r.fail(node, key, "%q is not a duration such as 300s, 5m or 1h30m", text)
		case d < least:
			r.fail(node, key, "%s is too short: use at least %s", d, least)
		default:
			*into = d
		}
	}
}

func (r *reader) number(into *float64, least, most float64) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= least && n <= most) {
			r.fail(node, key, "%q is not a number from %v to %v", text, least, most)
			return
		}
		*into = n
	}
}

// size reads a number of bytes: 65536, 512KiB, 25MiB, 25MB.
func (r *reader) size(into *int64, least, most int64) field {
	units := []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1_000_000}, {"B", 1}, {"", 1}}
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		for _, unit := range units {
			number, ok := strings.CutSuffix(text, unit.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err == nil && n >= 0 && n <= most/unit.bytes && n*unit.bytes >= least {
				*into = n * unit.bytes
				return
			}
			break
		}
		r.fail(node, key, "%q is not a size from %d to %d bytes, such as 512KiB or 25MiB", text, least, most)
	}
}

// refField reads a reference into a delivery.
func (r *reader) refField(into *ref) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		parsed, err := parseRef(text)
		if err != nil {
			r.fail(node, key, "%v", err)
			return
		}
		*into = parsed
	}
}

// path reads a path into a JSON body.
func (r *reader) path(into **jsonscan.Path) field {
	return func(key string, node ast.Node) {
		text, ok := r.scalar(key, node)
		if !ok {
			return
		}
		parsed, err := jsonscan.ParsePath(text)
		if err != nil {
			r.fail(node, key, "%v; $ is the body itself", err)
			return
		}
		*into = &parsed
	}
}

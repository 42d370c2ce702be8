package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/catchwater/catchwater/pkg/signature"
)

// Load reads and checks a sources file.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the sources file: %w (set --config or CATCHWATER_CONFIG)", err)
	}
	return Parse(path, data)
}

// Parse checks a sources file's contents. Its error names every fault, each
// with the file, line and key.
func Parse(file string, data []byte) (*Config, error) {
	tree, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\uFEFF")), 0) // some editors put that mark there
	if err != nil {
		return nil, notYAML(file, err)
	}
	r := &reader{file: file}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		r.fail(nil, "sources", "the file is empty; see docs/sources.md")
		return nil, r.err()
	}
	for _, doc := range tree.Docs[1:] {
		r.fail(doc.Body, "---", "a second document begins before this; put all sources into one")
	}
	config := &Config{}
	r.mapping("", tree.Docs[0].Body, map[string]field{"sources": func(key string, node ast.Node) {
		r.each(key, node, func(name, path string, keyNode, value ast.Node) {
			if s := r.source(name, path, keyNode, value); s != nil {
				config.Sources = append(config.Sources, s)
			}
		})
	}})
	if len(config.Sources) == 0 && len(r.errs) == 0 {
		r.fail(tree.Docs[0].Body, "sources", "no source is configured")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	slices.SortFunc(config.Sources, func(a, b *Source) int { return strings.Compare(a.Name, b.Name) })
	return config, nil
}

// notYAML names the line of a syntax error. It leaves out the lines around it
// that the parser quotes, since a secret may stand there by mistake.
func notYAML(file string, err error) error {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil || syntax.Token.Position == nil {
		return fmt.Errorf("%s: not YAML: %w", file, err)
	}
	return fmt.Errorf("%s:%d: not YAML: %s", file, syntax.Token.Position.Line, syntax.Message)
}

// sourceName is what may stand in a URL's path, a subject and a metric label.
var sourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// The limits of max_body, in bytes.
const (
	leastMaxBody = 1 << 10
	mostMaxBody  = 256 << 20
)

// alwaysKept are headers worth keeping whoever sends them.
var alwaysKept = []string{"Content-Type", "Content-Encoding", "User-Agent"}

// source reads one source; nil when something is wrong with it.
func (r *reader) source(name, key string, keyNode, node ast.Node) *Source {
	faults := len(r.errs)
	if !sourceName.MatchString(name) {
		r.fail(keyNode, key, "a source's name has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or digit")
	}
	p := r.preset(key, keyNode, node)
	s := &Source{
		Name: name, MaxBody: DefaultMaxBody, RejectStatus: http.StatusBadRequest, GzipSigned: GzipRefused,
		Projection: p.projection,
	}
	scheme, rules, keep := p.scheme, p.identity, p.keep
	messages := p.messages
	var schemeNode, secretsNode, keepNode, toleranceNode, reconcileNode, messagesNode, effectsNode ast.Node
	rejectStatus := "400"
	r.mapping(key, node, map[string]field{
		"preset":        r.text(&s.Preset),
		"scheme":        func(key string, node ast.Node) { schemeNode = node; r.scheme(key, node, &scheme) },
		"secrets":       func(key string, node ast.Node) { secretsNode = node; r.secrets(key, node, &s.Secrets) },
		"tolerance":     func(key string, node ast.Node) { toleranceNode = node; r.duration(&scheme.Tolerance, 0)(key, node) },
		"key":           func(key string, node ast.Node) { r.key(key, node, &rules.key) },
		"type":          r.refField(&rules.eventType),
		"subject":       r.refField(&rules.subject),
		"occurred_at":   r.refField(&rules.occurredAt),
		"test":          func(key string, node ast.Node) { r.condition(key, node, &rules.test) },
		"provisional":   func(key string, node ast.Node) { r.condition(key, node, &rules.provisional) },
		"projection":    choice(r, &s.Projection, ProjectionAnswers, ProjectionMessages, ProjectionNone),
		"messages":      func(key string, node ast.Node) { messagesNode = node; r.messages(key, node, &messages) },
		"events":        r.path(&s.events),
		"max_body":      r.size(&s.MaxBody, leastMaxBody, mostMaxBody),
		"reject_status": choice(r, &rejectStatus, "400", "401"),
		"gzip":          choice(r, &s.GzipSigned, GzipRefused, GzipDecoded, GzipWire),
		"keep_headers":  func(key string, node ast.Node) { keepNode = node; r.texts(&keep)(key, node) },
		"reconcile":     func(_ string, node ast.Node) { reconcileNode = node }, // read when all else is known
		"effects":       func(key string, node ast.Node) { effectsNode = node; r.effects(key, node, s) },
	})
	if rejectStatus == "401" {
		s.RejectStatus = http.StatusUnauthorized
	}
	if secretsNode == nil {
		r.fail(keyNode, key+".secrets", "name at least one secret, such as secrets: [{env: %s_SECRET}]", strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	s.Messages = r.messagesOf(key, keyNode, messagesNode, s, rules, messages)
	if reconcileNode != nil {
		s.Reconcile = r.reconcile(key+".reconcile", reconcileNode, s, p, rules, messages)
	}
	r.effectsFit(key+".effects", effectsNode, s)
	if len(r.errs) > faults {
		return nil
	}
	var err error
	if s.Verifier, err = scheme.Compile(); err != nil {
		for _, fault := range strings.Split(err.Error(), "\n") {
			if what, ok := strings.CutPrefix(fault, "tolerance: "); ok && toleranceNode != nil {
				r.fail(toleranceNode, key+".tolerance", "%s", what)
				continue
			}
			r.fail(cmp.Or(schemeNode, keyNode), key+".scheme", "%s", fault)
		}
		return nil
	}
	if keepNode == nil {
		keep = append(slices.Clone(alwaysKept), keep...)
	}
	for _, name := range keep {
		s.KeepHeaders = append(s.KeepHeaders, http.CanonicalHeaderKey(name))
	}
	s.rules = rules.compile()
	return s
}

// preset finds the preset that a source's other keys override.
func (r *reader) preset(key string, keyNode, node ast.Node) preset {
	var names []string
	for name := range presets {
		names = append(names, name)
	}
	slices.Sort(names)
	found, said := preset{polls: true, identity: taskRules}, false // so that an unknown one is said once
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		return found // said by whoever reads the rest
	}
	r.each(key, node, func(name, path string, _, value ast.Node) {
		if name != "preset" {
			return
		}
		said = true
		text := ""
		choice(r, &text, names...)(path, value)
		if known, ok := presets[text]; ok {
			found = known
		}
	})
	if !said {
		r.fail(keyNode, key+".preset", "name one of %s", strings.Join(names, ", "))
	}
	return found
}

func (r *reader) scheme(key string, node ast.Node, s *signature.Scheme) {
	r.mapping(key, node, map[string]field{
		"header":           r.nonEmpty(&s.Header),
		"form":             choice(r, &s.Form, signature.FormPairs, signature.FormVersioned, signature.FormBare),
		"signature_keys":   r.texts(&s.SignatureKeys),
		"timestamp_key":    r.text(&s.TimestampKey),
		"timestamp_header": r.text(&s.TimestampHeader),
		"timestamp_unit":   choice(r, &s.TimestampUnit, signature.Seconds, signature.Milliseconds),
		"id_header":        r.text(&s.IDHeader),
		"signed":           r.nonEmpty(&s.Signed),
		"algorithm":        choice(r, &s.Algorithm, signature.HMACSHA256, signature.HMACSHA1, signature.HMACSHA512, signature.Ed25519, signature.ECDSAP256),
		"encoding":         choice(r, &s.Encoding, signature.Hex, signature.Base64),
		"key_form":         choice(r, &s.KeyForm, signature.Verbatim, signature.Hex, signature.Base64),
		"key_prefix":       r.text(&s.KeyPrefix),
	})
}

// maxKeyParts keeps a source's paths well within what one scan takes.
const maxKeyParts = 16

// key reads what identifies an event: a list of references, or body_hash.
func (r *reader) key(key string, node ast.Node, parts *[]keyPart) {
	*parts = nil
	if text, ok := node.(*ast.StringNode); ok {
		if text.Value != "body_hash" {
			r.fail(node, key, "this must be a list of references, such as [task.id], or body_hash")
		}
		return
	}
	r.list(key, node, func(key string, node ast.Node) {
		var part keyPart
		switch node.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			part.optional = true
			r.mapping(key, node, map[string]field{"optional": r.refField(&part.ref)})
		default:
			r.refField(&part.ref)(key, node)
		}
		*parts = append(*parts, part)
	})
	if len(*parts) > maxKeyParts {
		r.fail(node, key, "it has %d parts; at most %d identify an event", len(*parts), maxKeyParts)
	}
	if !slices.ContainsFunc(*parts, func(p keyPart) bool { return !p.optional }) {
		r.fail(node, key, "at least one part must not be optional")
	}
}

// condition reads {field: …, equals: …} or {field: …, in: […]}, or none.
func (r *reader) condition(key string, node ast.Node, c *condition) {
	*c = condition{}
	if text, ok := node.(*ast.StringNode); ok && text.Value == "none" {
		return
	}
	var equals string
	faults := len(r.errs)
	r.mapping(key, node, map[string]field{"field": r.refField(&c.ref), "equals": r.text(&equals), "in": r.texts(&c.values)})
	if equals != "" {
		c.values = append(c.values, equals)
	}
	if len(r.errs) == faults && (c.ref.kind == refNone || len(c.values) == 0) {
		r.fail(node, key, `give field, and equals or in, such as {field: test, equals: "true"}; or none`)
	}
}

func (r *reader) secrets(key string, node ast.Node, refs *[]SecretRef) {
	r.list(key, node, func(key string, node ast.Node) {
		var s SecretRef
		r.secret(&s)(key, node)
		*refs = append(*refs, s)
	})
	if sequence, ok := node.(*ast.SequenceNode); ok && len(sequence.Values) == 0 {
		r.fail(node, key, "the list is empty; without a secret nothing can be verified")
	}
}

func (r *reader) secret(into *SecretRef) field {
	return func(key string, node ast.Node) {
		switch node.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			r.mapping(key, node, map[string]field{"env": r.nonEmpty(&into.Env), "file": r.nonEmpty(&into.File)})
		case *ast.AnchorNode, *ast.AliasNode:
			r.fail(node, key, notAnchored)
			return
		}
		if (into.Env == "") == (into.File == "") {
			r.fail(node, key, "give the secret's place, {env: NAME} or {file: /path}, never the secret")
		}
	}
}

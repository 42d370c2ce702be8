// Package source holds what is configured about each provider endpoint: how
// its deliveries are verified, what identifies an event, and what is to be
// made of it. It reads the sources file and the secrets, and nothing else: it
// knows no HTTP server, no store and no broker.
package source

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/catchwater/catchwater/pkg/jsonscan"
	"github.com/catchwater/catchwater/pkg/signature"
)

// The projections a source can have.
const (
	ProjectionAnswers  = "answers"  // results of asynchronous tasks
	ProjectionMessages = "messages" // status events about messages
	ProjectionNone     = "none"     // stored and marked, nothing more
)

// Config is a sources file that has been checked.
type Config struct {
	Sources []*Source // sorted by name
}

// Lookup returns the source of that name, or nil.
func (c *Config) Lookup(name string) *Source {
	i, found := slices.BinarySearchFunc(c.Sources, name, func(s *Source, name string) int { return strings.Compare(s.Name, name) })
	if !found {
		return nil
	}
	return c.Sources[i]
}

// GzipSigned says which bytes a sender of compressed bodies signs.
type GzipSigned string

const (
	GzipRefused GzipSigned = "refused" // compressed bodies are answered 415
	GzipDecoded GzipSigned = "decoded" // the body before it was compressed
	GzipWire    GzipSigned = "wire"    // the compressed bytes
)

// DefaultMaxBody is the limit of a delivery's body in bytes where none is set.
const DefaultMaxBody = 1 << 20

// Source is one provider endpoint, POST /hooks/{name}.
type Source struct {
	Name         string
	Preset       string
	Verifier     *signature.Verifier
	Secrets      []SecretRef
	MaxBody      int64 // bytes, after inflating
	RejectStatus int   // 400 or 401
	GzipSigned   GzipSigned
	Projection   string
	Messages     *Messages  // what events mean; nil but for ProjectionMessages
	Reconcile    *Reconcile // nil where the provider is not to be asked
	Effects      []*Effect
	KeepHeaders  []string // canonical names

	rules  compiledRules
	events *jsonscan.Path // where a body's array of events stands; nil for one event a body
}

// SecretRef is the place where a secret stands: one of the two is set.
type SecretRef struct {
	Env  string // an environment variable
	File string // a path
}

// String names the place, never the secret.
func (r SecretRef) String() string {
	if r.Env != "" {
		return "environment variable " + r.Env
	}
	return "file " + r.File
}

// maxHeaderValue bounds a kept header's value, in bytes.
const maxHeaderValue = 1024

// Keep returns those headers of a request that are worth storing, as text that
// JSON and Postgres take.
func (s *Source) Keep(h http.Header) map[string]string {
	kept := make(map[string]string, len(s.KeepHeaders))
	for _, name := range s.KeepHeaders {
		if values := h[name]; len(values) > 0 {
			kept[name] = safeText(strings.Join(values, ", "), maxHeaderValue)
		}
	}
	return kept
}

// safeText is text as Postgres takes it, cut between two characters to a number
// of bytes.
func safeText(s string, most int) string {
	if len(s) > most+utf8.UTFMax {
		s = s[:most+utf8.UTFMax] // enough to cut from
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	for end := most; len(s) > most; end-- {
		if utf8.RuneStart(s[end]) {
			s = s[:end]
		}
	}
	return s
}

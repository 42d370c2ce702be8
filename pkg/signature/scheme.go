// Package signature verifies and makes the signatures that webhook providers
// put on their deliveries. A scheme is data over a few algorithms, so a new
// provider is a new value of Scheme, not new code. The package knows neither
// HTTP servers nor configuration files nor any store.
package signature

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Form is how signatures stand in their header.
type Form string

const (
	// FormPairs is a comma-separated list of key=value: "t=1,v1=ab,v1=cd" or
	// "sha256=ab". An item without a key repeats the last one: "v1=ab,cd".
	FormPairs Form = "pairs"
	// FormVersioned is a space-separated list of version,value: "v1,ab v1,cd".
	FormVersioned Form = "versioned"
	// FormBare is the signature and nothing else.
	FormBare Form = "bare"
)

// Algorithm is what a signature is computed with.
type Algorithm string

// The algorithms.
const (
	HMACSHA256 Algorithm = "hmac-sha256"
	HMACSHA1   Algorithm = "hmac-sha1"
	HMACSHA512 Algorithm = "hmac-sha512"
	Ed25519    Algorithm = "ed25519"
	ECDSAP256  Algorithm = "ecdsa-p256" // over SHA-256; signatures in ASN.1
)

// asymmetric says whether secrets are the sender's public keys.
func (a Algorithm) asymmetric() bool { return a == Ed25519 || a == ECDSAP256 }

// Encoding is how the bytes of a signature, or of a key, are written.
type Encoding string

// The encodings. Hexadecimal is read in either case, base64 in either alphabet
// and with or without padding.
const (
	Hex      Encoding = "hex"
	Base64   Encoding = "base64"
	Verbatim Encoding = "verbatim" // keys only: the secret's own bytes
)

// Unit is what a timestamp counts since 1970.
type Unit string

// The units.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
)

// Scheme describes a provider's signatures.
type Scheme struct {
	Header string // that holds the signatures
	Form   Form
	// SignatureKeys are the keys (FormPairs) or versions (FormVersioned) whose
	// values are signatures of this scheme; others are ignored. The first one
	// is used for signing.
	SignatureKeys []string
	// The timestamp stands under TimestampKey in Header, or in a header of its
	// own, or (both empty) there is none.
	TimestampKey    string
	TimestampHeader string
	TimestampUnit   Unit
	// IDHeader is the header whose value {id} stands for.
	IDHeader string
	// Signed is what is signed: text with {t}, {id}, {header:Name} and, once,
	// {body} in it.
	Signed    string
	Algorithm Algorithm
	Encoding  Encoding // of signatures: Hex or Base64
	KeyForm   Encoding // of secrets
	// KeyPrefix is taken off a secret that has it before it is decoded.
	KeyPrefix string
	// Tolerance is how far a timestamp may lie from now, either way; 0 means
	// that it is not judged.
	Tolerance time.Duration
}

// part is a piece of what is signed.
type part struct {
	kind partKind
	text string // a literal, or a header's name
}

type partKind uint8

const (
	partLiteral partKind = iota
	partTimestamp
	partHeader
	partBody
)

// Verifier is a Scheme that has been checked. It is safe for concurrent use.
type Verifier struct {
	scheme Scheme
	parts  []part
}

// Scheme returns what the verifier was made of.
func (v *Verifier) Scheme() Scheme { return v.scheme }

// Compile checks a scheme. Its errors name the field at fault as settings
// name it (header, form, signature_keys, …).
func (s Scheme) Compile() (*Verifier, error) {
	s.TimestampUnit = orDefault(s.TimestampUnit, Seconds)
	s.KeyForm = orDefault(s.KeyForm, Verbatim)
	parts, templateErr := parseTemplate(s)
	err := errors.Join(
		need(s.Header != "", "header: name the header that holds the signature"),
		oneOf("form", s.Form, FormPairs, FormVersioned, FormBare),
		oneOf("algorithm", s.Algorithm, HMACSHA256, HMACSHA1, HMACSHA512, Ed25519, ECDSAP256),
		oneOf("encoding", s.Encoding, Hex, Base64),
		oneOf("key_form", s.KeyForm, Verbatim, Hex, Base64),
		oneOf("timestamp_unit", s.TimestampUnit, Seconds, Milliseconds),
		need(s.Form == FormBare || len(s.SignatureKeys) > 0, "signature_keys: name the keys whose values are signatures"),
		need(!s.Algorithm.asymmetric() || s.KeyForm != Verbatim, "key_form: %s keys are hex or base64", s.Algorithm),
		need(s.TimestampKey == "" || s.TimestampHeader == "", "timestamp_key, timestamp_header: give one of them"),
		need(s.TimestampKey == "" || s.Form == FormPairs, `timestamp_key: only form "pairs" has keys; use timestamp_header`),
		need(s.Tolerance >= 0, "tolerance: use 0 or more"),
		need(s.Tolerance == 0 || s.hasTimestamp(), "tolerance: there is no timestamp to judge; set timestamp_key or timestamp_header, or tolerance: 0s"),
		templateErr,
	)
	if err != nil {
		return nil, err
	}
	s.SignatureKeys = slices.Clone(s.SignatureKeys)
	return &Verifier{scheme: s, parts: parts}, nil
}

func (s Scheme) hasTimestamp() bool { return s.TimestampKey != "" || s.TimestampHeader != "" }

func orDefault[T ~string](value, otherwise T) T {
	if value == "" {
		return otherwise
	}
	return value
}

func need(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func oneOf[T ~string](field string, value T, known ...T) error {
	if slices.Contains(known, value) {
		return nil
	}
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	return fmt.Errorf("%s: %q is not one of %s", field, value, strings.Join(names, ", "))
}

// parseTemplate splits what is signed into its parts.
func parseTemplate(s Scheme) ([]part, error) {
	var parts []part
	var errs []error
	bodies := 0
	for rest := s.Signed; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if literal != "" {
			parts = append(parts, part{kind: partLiteral, text: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		rest = after
		header, isHeader := strings.CutPrefix(name, "header:")
		switch {
		case !closed:
			errs = append(errs, fmt.Errorf(`signed: "{%s" is not closed`, name))
		case name == "body":
			bodies++
			parts = append(parts, part{kind: partBody})
		case name == "t":
			errs = append(errs, need(s.hasTimestamp(), "signed: {t} needs timestamp_key or timestamp_header"))
			parts = append(parts, part{kind: partTimestamp})
		case name == "id":
			errs = append(errs, need(s.IDHeader != "", "signed: {id} needs id_header"))
			parts = append(parts, part{kind: partHeader, text: http.CanonicalHeaderKey(s.IDHeader)})
		case isHeader && header != "":
			parts = append(parts, part{kind: partHeader, text: http.CanonicalHeaderKey(header)})
		default:
			errs = append(errs, fmt.Errorf("signed: {%s} is not one of {body}, {t}, {id}, {header:Name}", name))
		}
	}
	errs = append(errs, need(bodies == 1, "signed: {body} must stand in it once"))
	return parts, errors.Join(errs...)
}

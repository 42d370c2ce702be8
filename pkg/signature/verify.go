package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reason is why a delivery was rejected; one of few, so fit for a metric label.
type Reason string

// The reasons, from the one that says least to the one that says most: of
// several candidates the most telling one is reported.
const (
	Missing   Reason = "missing"   // no signature header
	Malformed Reason = "malformed" // a header that cannot be read, or lacks a part
	Mismatch  Reason = "mismatch"  // no signature fits any secret
	Ahead     Reason = "ahead"     // authentic, but from further in the future than tolerated
	Expired   Reason = "expired"   // authentic, but older than tolerated
)

var telling = []Reason{Missing, Malformed, Mismatch, Ahead, Expired}

// Reasons returns all of them.
func Reasons() []Reason { return slices.Clone(telling) }

// Rejection is the error of a delivery that is not to be trusted.
type Rejection struct {
	Reason Reason
	Detail string // for the log; never sent back, never a secret
}

func (r *Rejection) Error() string { return fmt.Sprintf("signature %s: %s", r.Reason, r.Detail) }

func reject(reason Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Each header line, and each asymmetric signature, costs a pass over the body, and
// a forger may send many of both. Senders send one line, and in it a signature
// for each of two or three secrets and versions.
const (
	maxLines      = 8
	maxSignatures = 16
)

// Verify returns nil when any signature in any header of the scheme's name was
// made over body with any of the keys, and its time is within the tolerance;
// else a *Rejection. Time is judged after the signature, so Expired and Ahead
// are only ever said of authentic deliveries.
func (v *Verifier) Verify(h http.Header, body []byte, keys []Key, now time.Time) error {
	lines := h.Values(v.scheme.Header)
	switch {
	case len(lines) == 0:
		return reject(Missing, "there is no %s header", v.scheme.Header)
	case len(lines) > maxLines:
		return reject(Malformed, "there are %d %s headers, more than %d", len(lines), v.scheme.Header, maxLines)
	}
	var worst *Rejection
	for _, line := range lines {
		rejection := v.verifyLine(h, line, body, keys, now)
		if rejection == nil {
			return nil
		}
		if worst == nil || slices.Index(telling, rejection.Reason) > slices.Index(telling, worst.Reason) {
			worst = rejection
		}
	}
	return worst
}

func (v *Verifier) verifyLine(h http.Header, line string, body []byte, keys []Key, now time.Time) *Rejection {
	inLine, signatures, rejection := v.read(line)
	if rejection != nil {
		return rejection
	}
	at, stamp, rejection := v.timestamp(h, inLine)
	if rejection != nil {
		return rejection
	}
	content, rejection := v.content(h, stamp)
	if rejection != nil {
		return rejection
	}
	if !v.anyFits(signatures, content, body, keys) {
		return reject(Mismatch, "none of %d signatures fits any of %d secrets", len(signatures), len(keys))
	}
	if v.scheme.Tolerance == 0 {
		return nil
	}
	switch age := now.Sub(at); {
	case age > v.scheme.Tolerance:
		return reject(Expired, "signed %s ago, more than %s", age.Round(time.Second), v.scheme.Tolerance)
	case age < -v.scheme.Tolerance:
		return reject(Ahead, "signed %s ahead, more than %s", (-age).Round(time.Second), v.scheme.Tolerance)
	}
	return nil
}

// read splits a header into its timestamp and the decoded signatures.
func (v *Verifier) read(line string) (stamp *string, signatures [][]byte, rejection *Rejection) {
	add := func(text string) {
		if decoded, err := decode(v.scheme.Encoding, strings.TrimSpace(text)); err == nil && len(decoded) > 0 {
			signatures = append(signatures, decoded)
		}
	}
	switch v.scheme.Form {
	case FormBare:
		add(line)
	case FormVersioned:
		for item := range strings.FieldsSeq(line) {
			if version, value, ok := strings.Cut(item, ","); ok && slices.Contains(v.scheme.SignatureKeys, version) {
				add(value)
			}
		}
	case FormPairs:
		key := ""
		for item := range strings.SplitSeq(line, ",") {
			name, value, ok := strings.Cut(item, "=")
			if name = strings.TrimSpace(name); ok {
				key = name
			} else {
				value = item
			}
			switch {
			case key != "" && key == v.scheme.TimestampKey:
				if stamp != nil {
					return nil, nil, reject(Malformed, "%s has its timestamp twice", v.scheme.Header)
				}
				trimmed := strings.TrimSpace(value)
				stamp = &trimmed
			case slices.Contains(v.scheme.SignatureKeys, key):
				add(value)
			}
		}
	}
	switch {
	case len(signatures) == 0:
		return nil, nil, reject(Malformed, "%s has no readable signature", v.scheme.Header)
	case len(signatures) > maxSignatures:
		return nil, nil, reject(Malformed, "%s has %d signatures, more than %d", v.scheme.Header, len(signatures), maxSignatures)
	}
	return stamp, signatures, nil
}

// maxStampDigits keeps a timestamp within what an int64 holds.
const maxStampDigits = 18

// timestamp finds and reads the time of signing. It returns the text too, which
// is what was signed.
func (v *Verifier) timestamp(h http.Header, inLine *string) (time.Time, string, *Rejection) {
	if !v.scheme.hasTimestamp() {
		return time.Time{}, "", nil
	}
	where := v.scheme.TimestampKey + " in " + v.scheme.Header
	if v.scheme.TimestampHeader != "" {
		where = v.scheme.TimestampHeader
		switch lines := h.Values(v.scheme.TimestampHeader); len(lines) {
		case 0:
		case 1:
			trimmed := strings.TrimSpace(lines[0])
			inLine = &trimmed
		default:
			return time.Time{}, "", reject(Malformed, "there are %d %s headers", len(lines), where)
		}
	}
	if inLine == nil {
		return time.Time{}, "", reject(Malformed, "there is no timestamp (%s)", where)
	}
	text := *inLine
	if text == "" || len(text) > maxStampDigits || strings.Trim(text, "0123456789") != "" {
		return time.Time{}, "", reject(Malformed, "the timestamp %.40q (%s) is not 1 to %d digits", text, where, maxStampDigits)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, "", reject(Malformed, "the timestamp %.40q (%s) is not a number", text, where)
	}
	if v.scheme.TimestampUnit == Milliseconds {
		return time.UnixMilli(n), text, nil
	}
	return time.Unix(n, 0), text, nil
}

// content is what is signed: what stands before the body and what after it.
type content struct{ before, after string }

func (v *Verifier) content(h http.Header, stamp string) (content, *Rejection) {
	var c content
	target := &c.before
	for _, p := range v.parts {
		switch p.kind {
		case partLiteral:
			*target += p.text
		case partTimestamp:
			*target += stamp
		case partHeader:
			lines := h.Values(p.text)
			if len(lines) != 1 || lines[0] == "" {
				return content{}, reject(Malformed, "there must be one %s header, since it is signed", p.text)
			}
			*target += lines[0]
		case partBody:
			target = &c.after
		}
	}
	return c, nil
}

func (v *Verifier) anyFits(signatures [][]byte, c content, body []byte, keys []Key) bool {
	fits := false
	for _, key := range keys {
		if v.scheme.Algorithm.asymmetric() {
			message := slices.Concat([]byte(c.before), body, []byte(c.after))
			for _, signature := range signatures {
				fits = fits || key.signed(message, signature)
			}
			continue
		}
		want := v.mac(key, c, body)
		for _, signature := range signatures {
			fits = hmac.Equal(want, signature) || fits // each is compared, in constant time
		}
	}
	return fits
}

// signed says whether a signature of a message is by the owner of a public key.
func (k Key) signed(message, signature []byte) bool {
	if k.ecdsa != nil {
		digest := sha256.Sum256(message)
		return ecdsa.VerifyASN1(k.ecdsa, digest[:], signature)
	}
	return len(signature) == ed25519.SignatureSize && ed25519.Verify(k.bytes, message, signature)
}

func (v *Verifier) newHash() func() hash.Hash {
	switch v.scheme.Algorithm {
	case HMACSHA1:
		return sha1.New
	case HMACSHA512:
		return sha512.New
	}
	return sha256.New
}

func (v *Verifier) mac(key Key, c content, body []byte) []byte {
	mac := hmac.New(v.newHash(), key.bytes)
	mac.Write([]byte(c.before))
	mac.Write(body)
	mac.Write([]byte(c.after))
	return mac.Sum(nil)
}

// Sign puts on h what a provider would: the timestamp, and one signature for
// each key. Headers that are signed but not the scheme's own (the id, other
// names in its template) must be there already.
func (v *Verifier) Sign(h http.Header, body []byte, keys []Key, now time.Time) error {
	stamp := strconv.FormatInt(now.Unix(), 10)
	if v.scheme.TimestampUnit == Milliseconds {
		stamp = strconv.FormatInt(now.UnixMilli(), 10)
	}
	if v.scheme.TimestampHeader != "" {
		h.Set(v.scheme.TimestampHeader, stamp)
	}
	c, rejection := v.content(h, stamp)
	if rejection != nil {
		return fmt.Errorf("sign: %s", rejection.Detail)
	}
	var items []string
	if v.scheme.TimestampKey != "" {
		items = append(items, v.scheme.TimestampKey+"="+stamp)
	}
	for _, key := range keys {
		var made []byte
		switch {
		case !v.scheme.Algorithm.asymmetric():
			made = v.mac(key, c, body)
		case key.private == nil:
			return errors.New("sign: the key is a public one")
		default:
			made = ed25519.Sign(key.private, slices.Concat([]byte(c.before), body, []byte(c.after)))
		}
		text := encode(v.scheme.Encoding, made)
		switch v.scheme.Form {
		case FormPairs:
			text = v.scheme.SignatureKeys[0] + "=" + text
		case FormVersioned:
			text = v.scheme.SignatureKeys[0] + "," + text
		}
		items = append(items, text)
	}
	separator := ","
	if v.scheme.Form == FormVersioned {
		separator = " "
	}
	h.Set(v.scheme.Header, strings.Join(items, separator))
	return nil
}

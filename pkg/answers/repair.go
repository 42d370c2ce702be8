package answers

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExponent bounds the exponents that are left to jsonb: its numbers have at
// most 131,072 digits before and 16,383 after the decimal point.
const maxExponent = 16_000

// maxDigits bounds the digits of a number that is left to jsonb.
const maxDigits = 16_000

// Repair returns valid JSON as jsonb takes it, and whether anything had to be
// changed for that. U+0000, lone surrogates and bytes that are not UTF-8 become
// U+FFFD; a number that jsonb's range cannot hold becomes a string of its text.
// What needs no repair is returned as it is, not copied.
func Repair(raw []byte) ([]byte, bool) {
	r := repairer{in: raw}
	for r.pos < len(raw) {
		switch c := raw[r.pos]; {
		case c == '"':
			r.str()
		case c == '-' || c >= '0' && c <= '9':
			r.number()
		default:
			r.pos++
		}
	}
	if !r.changed {
		return raw, false
	}
	return append(r.out, raw[r.kept:]...), true
}

// repairer walks over JSON that is known to be valid but for its characters.
type repairer struct {
	in      []byte
	pos     int
	out     []byte
	kept    int // in[:kept] has gone to out
	changed bool
}

// replace puts text in place of in[from:to].
func (r *repairer) replace(from, to int, text string) {
	r.out = append(r.out, r.in[r.kept:from]...)
	r.out = append(r.out, text...)
	r.kept = to
	r.changed = true
}

func (r *repairer) str() {
	for r.pos++; r.pos < len(r.in); {
		switch c := r.in[r.pos]; {
		case c == '"':
			r.pos++
			return
		case c == '\\':
			r.escape()
		case c < utf8.RuneSelf:
			r.pos++
		default:
			if char, size := utf8.DecodeRune(r.in[r.pos:]); char == utf8.RuneError && size == 1 {
				r.replace(r.pos, r.pos+1, "\uFFFD")
				r.pos++
			} else {
				r.pos += size
			}
		}
	}
}

func (r *repairer) escape() {
	first, ok := unicodeEscape(r.in[r.pos:])
	if !ok {
		r.pos += 2
		return
	}
	const length = len(`\u0000`)
	switch {
	case first == 0:
		r.replace(r.pos, r.pos+length, "\uFFFD")
	case utf16.IsSurrogate(first):
		second, ok := unicodeEscape(r.in[r.pos+length:])
		if ok && utf16.DecodeRune(first, second) != utf8.RuneError {
			r.pos += length // and the low half below
		} else {
			r.replace(r.pos, r.pos+length, "\uFFFD")
		}
	}
	r.pos += length
}

// unicodeEscape reads a \uXXXX at the start of s.
func unicodeEscape(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(code), err == nil
}

func (r *repairer) number() {
	start := r.pos
	for r.pos < len(r.in) && bytes.IndexByte([]byte("+-0123456789.eE"), r.in[r.pos]) >= 0 {
		r.pos++
	}
	text := r.in[start:r.pos]
	mantissa, exponent := text, 0
	if at := bytes.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
		var err error
		if exponent, err = strconv.Atoi(string(text[at+1:])); err != nil {
			exponent = maxExponent + 1
		}
	}
	if len(mantissa) > maxDigits || exponent > maxExponent || exponent < -maxExponent || len(mantissa)-exponent > maxExponent {
		r.replace(start, r.pos, `"`+string(text)+`"`)
	}
}

package jsonscan

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns what a value says: a string's characters, and anything else as
// it stands in the document. What cannot be a character (bytes that are not
// UTF-8, lone surrogates) becomes U+FFFD, and repaired says so.
func (v Value) Text() (text string, repaired bool) {
	if v.Kind != String {
		return string(v.Raw), false
	}
	return unquote(v.Raw)
}

// unquote decodes a string that has been scanned.
func unquote(raw []byte) (text string, repaired bool) {
	inner := string(raw[1 : len(raw)-1])
	if !strings.Contains(inner, `\`) && utf8.ValidString(inner) {
		return inner, false
	}
	var out strings.Builder
	for i := 0; i < len(inner); {
		if inner[i] != '\\' {
			char, size := utf8.DecodeRuneInString(inner[i:])
			repaired = repaired || char == utf8.RuneError && size == 1
			out.WriteRune(char)
			i += size
			continue
		}
		if inner[i+1] != 'u' {
			out.WriteByte(simpleEscape(inner[i+1]))
			i += 2
			continue
		}
		char := escapedUnit(inner[i:])
		i += 6
		if utf16.IsSurrogate(char) {
			pair := rune(utf8.RuneError)
			if strings.HasPrefix(inner[i:], `\u`) {
				pair = utf16.DecodeRune(char, escapedUnit(inner[i:]))
			}
			if pair == utf8.RuneError {
				repaired = true
			} else {
				i += 6
			}
			char = pair
		}
		out.WriteRune(char)
	}
	return out.String(), repaired
}

func simpleEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // a quote, a backslash or a slash
}

// escapedUnit is the UTF-16 unit that \uXXXX at the start of s stands for.
func escapedUnit(s string) rune {
	unit, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(unit)
}

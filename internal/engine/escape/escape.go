// Package escape keeps characters of others' texts from having an effect on a terminal.
//
// It must not know where a text comes from.
package escape

import (
	"bytes"
	"fmt"
	"unicode"
)

// IsHidden reports whether a character has an effect on a terminal, or on the order in which it shows
// others, instead of being shown.
func IsHidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// JSON returns a JSON document with the same values in which such characters are escaped.
// encoding/json escapes only those below U+0020. Characters that YAML does not allow are escaped, too.
func JSON(doc []byte) []byte {
	if !bytes.ContainsFunc(doc, isRaw) {
		return doc
	}
	var out bytes.Buffer
	for _, r := range string(doc) {
		if isRaw(r) { // which is in a string, as JSON has such characters nowhere else
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// isRaw reports whether encoding/json wrote a character as it is that must be escaped.
func isRaw(r rune) bool { return r >= 0x7f && IsHidden(r) || r == '\ufffe' || r == '\uffff' }

package resource

import (
	"crypto/md5" //nolint:gosec // what object stores report for a listed object
	"encoding/hex"
	"fmt"
)

// Content is a text that is compared by its digest, because it is long, secret,
// or observed only as a digest. The digest is the hexadecimal MD5, which is
// what object stores report in a listing.
type Content struct {
	text   Value
	digest string // set for an observed content whose text was not read
	secret bool
}

// Text returns a content whose text is given.
func Text(v Value) Content { return Content{text: v} }

// SecretText returns a content that is never shown.
func SecretText(s string) Content { return Content{text: Lit(s), secret: true} }

// Digested returns an observed content of which only the hexadecimal MD5 is known.
func Digested(md5hex string) Content { return Content{digest: md5hex} }

// Value returns the text; it is zero for a content known by its digest only.
func (c Content) Value() Value { return c.text }

// Secret reports whether the text must never be shown.
func (c Content) Secret() bool { return c.secret }

// Digest returns the hexadecimal MD5 of the text, and whether it is known.
func (c Content) Digest() (string, bool) {
	if c.digest != "" {
		return c.digest, true
	}
	s, known := c.text.Known()
	if !known {
		return "", false
	}
	sum := md5.Sum([]byte(s)) //nolint:gosec // not a security boundary
	return hex.EncodeToString(sum[:]), true
}

// String shows the content without its text: its digest and its size.
func (c Content) String() string {
	d, known := c.Digest()
	s, read := c.text.Known()
	switch {
	case !known:
		return "(known after apply)"
	case c.digest != "" || !read || c.secret:
		return "md5:" + d
	}
	return fmt.Sprintf("md5:%s (%d bytes)", d, len(s))
}

// MarshalText writes what String shows; a plan never holds a content's text.
func (c Content) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

package value

import (
	"crypto/md5" //nolint:gosec // what object stores report for a listed object
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Content is a text that is compared by its digest, because it is long, secret,
// or observed only as a digest. The digest is the hexadecimal MD5, which object stores
// report in a listing, or the SHA-256 if we read the content ourselves.
type Content struct {
	text   Value
	digest string // set for an observed content whose text was not read
	secret bool
	hidden bool
}

// Text returns a content whose text is given.
func Text(v Value) Content { return Content{text: v} }

// SecretText returns a content that is never shown.
func SecretText(s string) Content { return Content{text: Lit(s), secret: true} }

// Digested returns an observed content with only a known digest, the hexadecimal MD5 or
// SHA-256, which Same compares.
func Digested(hexadecimal string) Content { return Content{digest: hexadecimal} }

// Same reports whether a desired content equals the observed one, as far as that is known.
func (c Content) Same(observed Content) bool {
	if text, known := c.text.Known(); known && len(observed.digest) == 2*sha256.Size {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:]) == observed.digest
	}
	want, known := c.Digest()
	have, observable := observed.Digest()
	return known && observable && want == have
}

// Value returns the text; it is zero if only the digest is known.
func (c Content) Value() Value { return c.text }

// Change calls f, which may change the text, and returns its result: whether it did.
func (c *Content) Change(f func(*Value) bool) bool { return f(&c.text) }

// Secret reports whether the text must never be shown.
func (c Content) Secret() bool { return c.secret }

// Hide returns a content that is never shown to people, but written like any other.
func (c Content) Hide() Content {
	c.hidden = true
	return c
}

// Shown reports whether people may see the text.
func (c Content) Shown() bool { return !c.secret && !c.hidden }

// Digest returns the hexadecimal MD5 of the text, or the observed digest, and
// whether there is one.
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

// String returns a description of the content without its text: its digest and its size.
func (c Content) String() string {
	d, known := c.Digest()
	s, read := c.text.Known()
	switch {
	case !known:
		return "(known after apply)"
	case len(c.digest) == 2*sha256.Size:
		return "sha256:" + d
	case c.digest != "" || !read || !c.Shown():
		return "md5:" + d
	}
	return fmt.Sprintf("md5:%s (%d bytes)", d, len(s))
}

// MarshalText returns what String returns; a plan never contains a content's text.
func (c Content) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

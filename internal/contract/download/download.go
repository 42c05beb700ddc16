// Package download defines how node configuration describes a file that a machine fetches: its
// digest and its places.
//
// It must not know which files a machine needs, nor fetch any.
package download

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Arch is a processor architecture, as it appears in the names of released files.
type Arch string

const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

// Arches lists the architectures that machines may have.
func Arches() []Arch { return []Arch{AMD64, ARM64} }

// File is something that a machine fetches.
type File struct {
	// Public is the publisher's URL of the file, under which its digest is known.
	Public string
	// URLs are the places of the file, in the order in which they are tried.
	URLs []string
	// SHA256 is the hexadecimal digest, empty if it is not known, or Unverified.
	SHA256 string
}

// Unverified replaces a digest if the user lets machines accept a file with any content. Nothing
// else makes them do that.
const Unverified = "unverified"

// String formats the file as in node configuration: digest@url,url, or only the places if the
// digest is not known, which machines reject.
func (f File) String() string {
	places := strings.Join(f.URLs, ",")
	if f.SHA256 == "" {
		return places
	}
	return f.SHA256 + "@" + places
}

// IsSHA256 reports whether a text is a hexadecimal SHA-256: exactly 64 digits.
func IsSHA256(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

// Package names shortens names to the limits of the services that use them, in the same way as
// kOps: its clusters are found under the same names.
//
// It must not know what is done with a name.
package names

import (
	"encoding/base32"
	"hash/fnv"
	"strings"
)

// hashLength is the number of characters of the hash at the end of a shortened name.
const hashLength = 6

// Tail is the number of bytes at the end of a shortened name that are not its start: a dash and the
// hash.
const Tail = 1 + hashLength

// Dashed returns a name for places where dots are not allowed.
func Dashed(name string) string { return strings.ReplaceAll(name, ".", "-") }

// Plain returns a name that may be a pattern with its stars spelled out.
func Plain(name string) string { return strings.ReplaceAll(name, "*", "wildcard") }

// Short returns a name of at most limit bytes: the name itself, or its start and a hash of the
// whole. The limit must be 8 or more.
func Short(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	return Hashed(name, limit)
}

// Hashed returns the start of a name and a hash of the whole, together at most limit bytes; the
// limit must be 8 or more. The hash is added even to short names, so that names of different
// clusters cannot collide when they are cut.
func Hashed(name string, limit int) string {
	head := name[:min(len(name), limit-Tail)]
	return head + "-" + hash(name)
}

// hash returns the first characters of the FNV-1a sum in base 32, alphabet 0-9a-v.
func hash(s string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return strings.ToLower(base32.HexEncoding.EncodeToString(h.Sum(nil)))[:hashLength]
}

package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// digestOf returns the hexadecimal SHA-256 of a text.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// copySum copies everything from a reader, and returns its hexadecimal SHA-256.
func copySum(to io.Writer, from io.Reader) (sum string, err error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), from); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

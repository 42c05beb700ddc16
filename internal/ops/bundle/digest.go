package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// copySum copies all there is to read, and returns its hexadecimal SHA-256.
func copySum(to io.Writer, from io.Reader) (sum string, err error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), from); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

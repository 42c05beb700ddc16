package bootstrap

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// OwnKey returns a Prover with the key that the machine's platform gave it: the first
// of files that exists below root, the root of the machine's file system.
func OwnKey(root string, files []string, hostname func() (string, error), now func() time.Time, random io.Reader) (Prover, error) {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the machine's own key: %w", err)
		}
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("read the machine's own key %s: %w", file, err)
		}
		name, err := hostname()
		if err != nil {
			return nil, fmt.Errorf("get the machine's name: %w", err)
		}
		return MachineKey{Node: name, Key: key, Now: now, Rand: random}, nil
	}
	return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the machine has no key of its own in %s", strings.Join(files, " or ")),
		"have the platform that created the machine put its key there, or enroll the machine")
}

// parseKey parses a private key in one of the usual formats.
func parseKey(text []byte) (crypto.Signer, error) {
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, errors.New("it holds no private key")
		}
		var key any
		var err error
		switch b.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
		return nil, errors.New("the key cannot sign")
	}
}

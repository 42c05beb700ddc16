// Package testkeys holds private keys for tests, because generating an RSA key takes longer than
// the rest of most tests. They protect nothing.
package testkeys

import (
	"crypto"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
)

//go:embed keys.pem
var text []byte

var parsed = sync.OnceValues(func() (keys []crypto.Signer, err error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot sign", key)
		}
		keys = append(keys, signer)
	}
	if len(keys) == 0 {
		return nil, errors.New("there are no keys")
	}
	return keys, nil
})

// Source returns a function that returns one key after another, 2048-bit RSA, and starts
// again after the last of 32. It is safe for concurrent use.
func Source() func() (crypto.Signer, error) {
	var mu sync.Mutex
	next := 0
	return func() (crypto.Signer, error) {
		keys, err := parsed()
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		key := keys[next%len(keys)]
		next++
		return key, nil
	}
}

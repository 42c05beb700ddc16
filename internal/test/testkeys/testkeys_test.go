package testkeys

import (
	"crypto/rsa"
	"testing"
)

func TestKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	newKey := Source()
	for range 32 {
		key, err := newKey()
		if err != nil {
			t.Fatal(err)
		}
		k, ok := key.(*rsa.PrivateKey)
		if !ok || k.N.BitLen() != 2048 {
			t.Fatalf("a key is %T", key)
		}
		seen[k.N.String()] = true
	}
	if len(seen) != 32 {
		t.Errorf("of 32 keys, %d differ", len(seen))
	}
}

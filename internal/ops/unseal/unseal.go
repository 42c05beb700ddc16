// Package unseal decrypts objects as API servers store them in etcd, to find out which keys a
// back-up's objects require (k8s.io/apiserver, package storage/value/encrypt).
//
// It must not know where objects and keys come from.
package unseal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/nacl/secretbox"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/node/etcd/snapshot"
)

// nonceSize is the length of a secretbox's nonce, which precedes the box, in bytes.
const nonceSize = 24

// Need is what is needed to read the objects that are encrypted in one way.
type Need struct {
	snapshot.Sealed
	// Keys are the given keys that decrypt the samples; Missing means that no key decrypts one of
	// the samples. For KMS plugins, which keep their keys, both are empty.
	Keys    []encryption.Retired
	Missing bool
}

// KMS reports whether the objects are encrypted by a KMS plugin.
func (n Need) KMS() bool { return n.Provider == "kms" }

// Needs finds out which of some keys decrypt the encrypted objects of a snapshot.
func Needs(sealed []snapshot.Sealed, keys []encryption.Retired) []Need {
	var out []Need
	for _, s := range sealed {
		n := Need{Sealed: s}
		for _, o := range s.Samples {
			if n.KMS() {
				break
			}
			if k, ok := opener(s, o, keys); ok {
				if !slices.ContainsFunc(n.Keys, func(o encryption.Retired) bool { return o.ID() == k.ID() }) {
					n.Keys = append(n.Keys, k)
				}
			} else {
				n.Missing = true
			}
		}
		out = append(out, n)
	}
	return out
}

// opener returns the first key that decrypts an object. Keys with other names cannot: API servers
// choose a key by its name.
func opener(s snapshot.Sealed, o snapshot.Object, keys []encryption.Retired) (encryption.Retired, bool) {
	for _, k := range keys {
		if k.Provider != s.Provider || k.Name != s.Name {
			continue
		}
		if _, err := Open(k, o); err == nil {
			return k, true
		}
	}
	return encryption.Retired{}, false
}

// Open decrypts an object. The result must be an object in one of the forms that API servers store:
// aescbc does not always detect a wrong key.
func Open(k encryption.Retired, o snapshot.Object) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(k.Secret)
	if err != nil {
		return nil, errors.New("the key is not base64")
	}
	var plain []byte
	switch k.Provider {
	case "secretbox":
		plain, err = openSecretbox(key, o.Value)
	case "aesgcm":
		plain, err = openGCM(key, o.Value, []byte(o.Key))
	case "aescbc":
		plain, err = openCBC(key, o.Value)
	default:
		err = fmt.Errorf("%s is not a provider with keys", k.Provider)
	}
	if err == nil && !bytes.HasPrefix(plain, []byte("k8s\x00")) && !bytes.HasPrefix(plain, []byte("{")) {
		err = errors.New("the decrypted text is not an object")
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt %s with %s: %w", o.Key, k.ID(), err)
	}
	return plain, nil
}

func openSecretbox(key, value []byte) ([]byte, error) {
	if len(key) != 32 || len(value) < nonceSize {
		return nil, errors.New("it is too short")
	}
	plain, ok := secretbox.Open(nil, value[nonceSize:], (*[nonceSize]byte)(value), (*[32]byte)(key))
	if !ok {
		return nil, errors.New("the key does not match")
	}
	return plain, nil
}

// openGCM decrypts a nonce and what follows; the object's key in etcd is authenticated with it.
func openGCM(key, value, path []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	if len(value) < gcm.NonceSize() {
		return nil, errors.New("it is too short")
	}
	return gcm.Open(nil, value[:gcm.NonceSize()], value[gcm.NonceSize():], path)
}

// openCBC decrypts an initialization vector and what follows, padded as in PKCS #7.
func openCBC(key, value []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if len(value) < 2*aes.BlockSize || len(value)%aes.BlockSize != 0 {
		return nil, errors.New("its length is not a multiple of the block size")
	}
	plain := make([]byte, len(value)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, value[:aes.BlockSize]).CryptBlocks(plain, value[aes.BlockSize:])
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > aes.BlockSize || !bytes.HasSuffix(plain, bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errors.New("the key does not match")
	}
	return plain[:len(plain)-pad], nil
}

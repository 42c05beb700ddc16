package controller

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/pki"
)

// keypairIDs is the file that maps a keyset to the identifier of its primary key.
const keypairIDs = "keypair-ids.yaml"

// LoadSigners reads the signing authorities, by keyset name, from a folder with
// <name>.crt (a bundle), <name>.key and keypair-ids.yaml. From a bundle, it takes
// the certificate that matches the key.
func LoadSigners(folder fs.FS, names []string) (map[string]*pki.Keyset, error) {
	text, err := fs.ReadFile(folder, keypairIDs)
	if err != nil {
		return nil, fmt.Errorf("read the identifiers of the signing keys: %w", err)
	}
	ids := map[string]string{}
	if err := yaml.UnmarshalStrict(text, &ids); err != nil {
		return nil, fmt.Errorf("read %s: %w", keypairIDs, err)
	}
	out := map[string]*pki.Keyset{}
	for _, n := range names {
		if out[n], err = loadSigner(folder, n, ids[n]); err != nil {
			return nil, fmt.Errorf("read the authority %s: %w", n, err)
		}
	}
	return out, nil
}

// LoadTrusted reads all certificates of an authority from the same folder as LoadSigners,
// including those of keys that no longer sign.
func LoadTrusted(folder fs.FS, name string) (*x509.CertPool, error) {
	bundle, err := fs.ReadFile(folder, name+".crt")
	if err != nil {
		return nil, fmt.Errorf("read the authority %s: %w", name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("read the authority %s: the bundle contains no certificate", name)
	}
	return pool, nil
}

func loadSigner(folder fs.FS, name, id string) (*pki.Keyset, error) {
	if id == "" {
		return nil, fmt.Errorf("%s does not name its key", keypairIDs)
	}
	text, err := fs.ReadFile(folder, name+".key")
	if err != nil {
		return nil, err
	}
	key, err := pki.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	bundle, err := fs.ReadFile(folder, name+".crt")
	if err != nil {
		return nil, err
	}
	cert, err := certificateOf(key.Public(), bundle)
	if err != nil {
		return nil, err
	}
	return pki.NewKeyset(name, id, pki.Item{ID: id, Certificate: cert, Key: key})
}

// certificateOf finds the certificate of a key in a bundle.
func certificateOf(key crypto.PublicKey, bundle []byte) (*x509.Certificate, error) {
	want, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	for {
		var b *pem.Block
		if b, bundle = pem.Decode(bundle); b == nil {
			return nil, errors.New("no certificate of the bundle matches the key")
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(cert.RawSubjectPublicKeyInfo, want) {
			return cert, nil
		}
	}
}

package model

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
)

// openIDConfiguration is the document of OpenID Connect Discovery 1.0, section 3, restricted to
// what service accounts need.
type openIDConfiguration struct {
	Issuer        string   `json:"issuer"`
	JWKSURI       string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	Claims        []string `json:"claims_supported"`
}

// webKey is a public key as in RFC 7517.
type webKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	N         string `json:"n"`
	E         string `json:"e"`
}

// discovery declares the documents with which others verify service account tokens.
func (b *builder) discovery() error {
	d := b.spec().ServiceAccountIssuerDiscovery
	if d == nil || d.DiscoveryStore == "" {
		return nil
	}
	issuer := ""
	if s := b.spec().KubeAPIServer; s != nil && s.ServiceAccountIssuer != nil {
		issuer = *s.ServiceAccountIssuer
	}
	keys, err := webKeys(b.Keysets[pki.ServiceAccount])
	if err != nil {
		return err
	}
	at := b.Buckets.Location(d.DiscoveryStore)
	for _, doc := range []struct {
		name, key string
		content   any
	}{
		{"discovery.json", layout.OpenIDConfiguration, openIDConfiguration{
			Issuer: issuer, JWKSURI: issuer + "/" + layout.WebKeys, Authorization: "urn:kubernetes:programmatic_authorization",
			ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}, Algorithms: []string{"RS256"}, Claims: []string{"sub", "iss"}}},
		{"keys.json", layout.WebKeys, map[string][]webKey{"keys": keys}},
	} {
		text, err := json.MarshalIndent(doc.content, "", "") // one line per key
		if err != nil {
			return fmt.Errorf("write %s: %w", doc.name, err)
		}
		b.trusting(at.Node(doc.name, doc.key, resource.Text(resource.Lit(string(text))), b.PublicDiscovery))
	}
	return nil
}

// webKeys lists the keys with which a token may be signed, by their identifiers: the base64url of
// the SHA-256 of the key.
func webKeys(k *pki.Keyset) ([]webKey, error) {
	encode := base64.RawURLEncoding.EncodeToString
	var out []webKey
	for _, i := range k.Items {
		if !i.Trusted() || i.Certificate == nil || i.Certificate.Subject.CommonName != pki.ServiceAccount {
			continue
		}
		key, ok := i.Certificate.PublicKey.(*rsa.PublicKey)
		if !ok {
			return nil, fmt.Errorf("the key %s of service accounts is not an RSA key; only RSA keys can be published", i.ID)
		}
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("the key %s of service accounts: %w", i.ID, err)
		}
		id := sha256.Sum256(der)
		out = append(out, webKey{Use: "sig", Type: "RSA", ID: encode(id[:]), Algorithm: "RS256",
			N: encode(key.N.Bytes()), E: encode(big.NewInt(int64(key.E)).Bytes())})
	}
	slices.SortFunc(out, func(a, b webKey) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

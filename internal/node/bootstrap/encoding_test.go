package bootstrap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// otherAuthority returns a CA certificate that has signed nothing in these tests.
func otherAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestPublicKeysAreWrittenAsTheProtocolSays(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := pem.Decode([]byte(text))
	if b == nil || b.Type != "RSA PUBLIC KEY" {
		t.Fatalf("got %s", text)
	}
	if _, err := x509.ParsePKIXPublicKey(b.Bytes); err != nil {
		t.Error(err)
	}
	if got, err := DecodePublicKey(text); err != nil || !key.PublicKey.Equal(got) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestBadPublicKeysAreRefused(t *testing.T) {
	der, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	short := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: der}))
	for text, says := range map[string]string{
		"":    "no PEM block",
		short: "1024 bits",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})):            "of type",
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("hello")})): "decode public key",
	} {
		if _, err := DecodePublicKey(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	for body, says := range map[string]string{
		"":   "EOF",
		"[]": "read the request",
		"{}": "apiVersion",
		`{"apiVersion":"bootstrap.kops.k8s.io/v2"}`:            "apiVersion",
		`{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1"} more`: "follows",
	} {
		if _, err := DecodeRequest([]byte(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", body, err, says)
		}
	}
}

package signed_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/signed"
)

const index = `{"files": {"https://a.io/x": {"sha256": "ab"}}, "images": {"a:1": {"digest": "sha256:1", "subset": "sha256:2"}}}`

func private(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func edKey(t *testing.T) []byte {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private(t, key)
}

func ecKey(t *testing.T, c elliptic.Curve) []byte {
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private(t, key)
}

func TestASignedIndexIsOpened(t *testing.T) {
	_, stranger, err := signed.Sign(edKey(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string][]byte{"Ed25519": edKey(t), "ECDSA": ecKey(t, elliptic.P256())} {
		signature, public, err := signed.Sign(key, []byte(index))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		i, err := signed.Open([]string{stranger, public}, []byte(index), signature)
		if err != nil || !i.Has("AB") || i.Has("cd") || i.Images["a:1"].Subset != "sha256:2" {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
		for what, err := range map[string]error{
			"another key":     signed.Verify([]string{stranger}, []byte(index), signature),
			"a changed index": signed.Verify([]string{public}, []byte(strings.Replace(index, "ab", "ac", 1)), signature),
			"no key":          signed.Verify(nil, []byte(index), signature),
			"no signature":    signed.Verify([]string{public}, []byte(index), nil),
		} {
			if !errors.Is(err, signed.ErrUnsigned) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

func TestKeysOfOtherKindsAreRefused(t *testing.T) {
	for says, key := range map[string][]byte{
		"neither an Ed25519 key": ecKey(t, elliptic.P384()), "not a private key": []byte("x"), "encrypted": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"}),
	} {
		if _, _, err := signed.Sign(key, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	_, public, err := signed.Sign(edKey(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "x", public + public, strings.Replace(public, "PUBLIC KEY", "CERTIFICATE", 2), string(edKey(t))} {
		if _, err := signed.ParseKey(text); err == nil {
			t.Errorf("%q is taken for a key", text)
		}
	}
}

// Signatures made with openssl are accepted, and openssl accepts those made here: keys can be kept
// out of this program's reach.
func TestOpenSSLAgrees(t *testing.T) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("openssl is not installed")
		}
		t.Skip("openssl is not installed: whether it agrees is NOT TESTED")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	openssl := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := os.WriteFile(at("bundle.json"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range [][]string{{"-algorithm", "ed25519"}, {"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}} {
		openssl(append([]string{"genpkey", "-out", at("key.pem")}, kind...)...)
		openssl("pkey", "-in", at("key.pem"), "-pubout", "-out", at("key.pub"))
		openssl("pkeyutl", "-sign", "-inkey", at("key.pem"), "-rawin", "-in", at("bundle.json"), "-out", at("raw"))
		theirs := []byte(base64.StdEncoding.EncodeToString(read("raw")))
		if err := signed.Verify([]string{string(read("key.pub"))}, []byte(index), theirs); err != nil {
			t.Errorf("%v: what openssl has signed: %v", kind, err)
		}
		ours, public, err := signed.Sign(read("key.pem"), []byte(index))
		if err != nil || public != string(read("key.pub")) {
			t.Fatalf("%v: %q, %v", kind, public, err)
		}
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(ours)))
		if err == nil {
			err = os.WriteFile(at("raw"), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		openssl("pkeyutl", "-verify", "-pubin", "-inkey", at("key.pub"), "-rawin", "-in", at("bundle.json"), "-sigfile", at("raw"))
	}
}

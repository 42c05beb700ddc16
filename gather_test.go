package kops_test

import (
	"fmt"
	"strings"
	"testing"

	"kops.local/kops"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

// folder returns a folder below the cluster's.
func (b *bench) folder(of string) store.Store {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL+"/"+name+"/"+of)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// secret writes a secret into the cluster's folder.
func (b *bench) secret(secretName, text string) {
	b.Helper()
	data, err := pki.EncodeSecret(pki.NewSecret(text))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.folder("secrets").Put(b.Context(), secretName, data, store.PutOptions{}); err != nil {
		b.Fatal(err)
	}
}

func TestRequiredSecretsMustExist(t *testing.T) {
	b := newBench(t)
	b.describe(func(o *newcluster.Options) { o.Networking = "cilium" })
	b.set("", "spec.networking.cilium.enableEncryption=true")
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{})
	expectTexts(t, err, "spec.networking.cilium.enableEncryption", "could not find ciliumpassword secret")

	b.secret("ciliumpassword", "3 rfc4106(gcm(aes)) 00 128")
	b.preview(kops.UpdateOptions{})

	b.set("", "spec.encryptionConfig=true")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	expectTexts(t, err, "could not find encryptionconfig secret")
	if strings.Contains(err.Error(), "ciliumpassword") {
		t.Errorf("%v: ciliumpassword is there", err)
	}
	b.secret("encryptionconfig", "kind: EncryptionConfiguration\n")
	b.preview(kops.UpdateOptions{})
}

// The key that encrypts etcd is created together with the cluster's authority, and never again.
func TestTheKeyThatEncryptsIsMadeOnce(t *testing.T) {
	b := newBench(t)
	b.describe(func(o *newcluster.Options) { o.Hardened = true })
	if text := fmt.Sprintf("%+v", b.preview(kops.UpdateOptions{}).Plan); strings.Contains(text, "secretbox") {
		t.Error("the plan shows the key")
	}
	keys := b.folder("secrets")
	b.world.Refuse(func(verb, address string) error {
		if verb == "create" && strings.HasPrefix(address, "fake_") {
			return fault.New(fault.Quota, "no more")
		}
		return nil
	})
	if _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err == nil {
		t.Fatal("a full cloud was no error")
	}
	first, _, err := keys.Get(t.Context(), pki.EncryptionConfig)
	if err != nil {
		t.Fatal(err)
	}
	b.world.Refuse(nil)
	b.apply(kops.UpdateOptions{})
	b.apply(kops.UpdateOptions{})
	second, _, err := keys.Get(t.Context(), pki.EncryptionConfig)
	if err != nil || string(first) != string(second) {
		t.Errorf("the key has changed, or is gone: %v", err)
	}
	if err := keys.Delete(t.Context(), pki.EncryptionConfig, store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{}) // a different key could not read the stored data
	expectTexts(t, err, "could not find encryptionconfig secret")
}

func TestAnOlderKopsIsReportedBeforeOtherErrors(t *testing.T) {
	b := newAppliedBench(t)
	newer := b.client(func(c *kops.Config) { c.Version = "1.38.2" })
	if _, err := newer.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	s, err := b.stores().Open(t.Context(), b.cfg.Store.URL+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := s.Get(t.Context(), "config")
	if err != nil {
		t.Fatal(err)
	}
	// This version treats fields that only the newer version knows as mistakes.
	text := strings.Replace(string(data), "enableNodePort: true", "enableNodePort: true\n      version: v1.99.0", 1)
	if _, err := s.Put(t.Context(), "config", []byte(text), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	expectRefusal(t, err, "1.38.2", "option:AllowDowngrade")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{AllowDowngrade: true})
	expectTexts(t, err, "v1.99.0")
}

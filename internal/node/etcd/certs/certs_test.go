package certs_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

func load(t *testing.T, dir string, now func() time.Time) *certs.Authorities {
	t.Helper()
	a, err := certs.Load(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// appendFile adds the content of a file to another one, before or after its own.
func appendFile(t *testing.T, to, from string, first bool) {
	t.Helper()
	added, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	text := append(there, added...)
	if first {
		text = append(added, there...)
	}
	if err := os.WriteFile(to, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheCertificateOfTheKeySigns(t *testing.T) {
	dir, old := t.TempDir(), t.TempDir()
	etcdtest.Authorities(t, dir)
	etcdtest.Authorities(t, old)
	appendFile(t, filepath.Join(dir, "etcd-clients-ca.crt"), filepath.Join(old, "etcd-clients-ca.crt"), true)
	a, before := load(t, dir, time.Now), load(t, old, time.Now)
	if n := len(a.Clients.Items); n != 2 {
		t.Fatalf("%d certificates are trusted", n)
	}
	p, err := a.Issue(a.Clients, pki.Client, "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	verify := func(roots *x509.CertPool) error {
		_, err := p.Certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	if err := verify(certs.Pool(a.Clients)); err != nil {
		t.Error(err)
	}
	if verify(certs.Pool(before.Clients)) == nil {
		t.Error("the other authority has signed")
	}
	theirs, err := before.Issue(before.Clients, pki.Client, "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	p = theirs
	if err := verify(certs.Pool(a.Clients)); err != nil {
		t.Errorf("what the older authority signed is not believed: %v", err)
	}
}

func TestAKeyWithoutItsCertificateIsRefused(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	etcdtest.Authorities(t, dir)
	etcdtest.Authorities(t, other)
	text, err := os.ReadFile(filepath.Join(other, "etcd-peers-ca.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "etcd-peers-ca.key"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Load(dir, time.Now); err == nil {
		t.Error("it was accepted")
	}
}

func TestFilesHaveTheirModesAndNames(t *testing.T) {
	dir := t.TempDir()
	etcdtest.Authorities(t, dir)
	a := load(t, dir, time.Now)
	to := filepath.Join(dir, "out")
	for range 2 { // the second call replaces the files
		if err := a.WritePair(to, "server", a.Clients, pki.ClientServer, "etcd-a", "etcd-a", "10.0.0.1", "::1"); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"server.key": 0o600, "server.crt": 0o644, "ca.crt": 0o644} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(to, "server.crt"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := pki.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"etcd-a", "10.0.0.1", "::1"} {
		if err := c.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if left := time.Until(c.NotAfter); left < certs.DefaultValidity-time.Hour || left > certs.DefaultValidity {
		t.Errorf("it lives for %s", left)
	}
}

func TestWhatIsPresentedIsRenewedHalfway(t *testing.T) {
	dir := t.TempDir()
	etcdtest.Authorities(t, dir)
	now := time.Now()
	a := load(t, dir, func() time.Time { return now })
	a.Validity = 10 * time.Hour
	p := a.Present(a.Manager, pki.Server, "me")
	get := func() []byte {
		c, err := p.Get()
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificate[0]
	}
	first := get()
	now = now.Add(4 * time.Hour)
	if !bytes.Equal(first, get()) {
		t.Error("it was renewed early")
	}
	now = now.Add(2 * time.Hour)
	second := get()
	if bytes.Equal(first, second) {
		t.Error("it was not renewed")
	}
	now = now.Add(-1000 * time.Hour) // the clock is corrected
	if bytes.Equal(second, get()) {
		t.Error("one that is not valid yet was not renewed")
	}
}

func TestWhatIsWrittenIsDueHalfway(t *testing.T) {
	dir := t.TempDir()
	etcdtest.Authorities(t, dir)
	now := time.Now()
	a := load(t, dir, func() time.Time { return now })
	a.Validity = 10 * time.Hour
	if !a.Due(dir, "server") {
		t.Error("what is not there is not due")
	}
	if err := a.WritePair(dir, "server", a.Clients, pki.ClientServer, "etcd-a"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		after time.Duration
		due   bool
	}{{0, false}, {4 * time.Hour, false}, {6 * time.Hour, true}, {11 * time.Hour, true}, {-1000 * time.Hour, true}} {
		start := now
		now = now.Add(x.after)
		if due := a.Due(dir, "server"); due != x.due {
			t.Errorf("after %s it is due: %v", x.after, due)
		}
		now = start
	}
	if err := os.WriteFile(filepath.Join(dir, "server.crt"), nil, 0o644); err != nil || !a.Due(dir, "server") {
		t.Errorf("what is damaged is not due, %v", err)
	}
}

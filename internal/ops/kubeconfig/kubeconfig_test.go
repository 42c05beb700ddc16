package kubeconfig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/internal/contract/pki"
)

func TestWriteKeepsOtherEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "config")
	other := Entry{Cluster: "other.example.com", Server: "https://other", Certificate: []byte("cert"), Key: []byte("key")}
	if err := Write(path, other); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, Entry{Cluster: "a.example.com", Server: "https://a", TLSServerName: "api.internal.a.example.com", CA: []byte("ca")}); err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.CurrentContext != "a.example.com" || c.Clusters["other.example.com"].Server != "https://other" {
		t.Errorf("current %q, other cluster %+v", c.CurrentContext, c.Clusters["other.example.com"])
	}
	if got := c.Clusters["a.example.com"]; got.Server != "https://a" || got.TLSServerName != "api.internal.a.example.com" || string(got.CertificateAuthorityData) != "ca" {
		t.Errorf("cluster is %+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	if found, err := Remove(path, "a.example.com"); !found || err != nil {
		t.Errorf("Remove = %v, %v", found, err)
	}
	left, err := load(path)
	if err != nil || left.Contexts["a.example.com"] != nil || left.Contexts["other.example.com"] == nil || CurrentCluster(path) != "" {
		t.Error("Remove took too much or too little")
	}
	if found, err := Remove(path, "a.example.com"); found || err != nil {
		t.Errorf("second Remove = %v, %v", found, err)
	}
}

func TestWriteWithoutCredentialsKeepsTheUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for _, e := range []Entry{
		{Cluster: "a", Server: "https://a", Certificate: []byte("cert"), Key: []byte("key")},
		{Cluster: "a", Server: "https://b"},
	} {
		if err := Write(path, e); err != nil {
			t.Fatal(err)
		}
	}
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Clusters["a"].Server != "https://b" || string(c.AuthInfos["a"].ClientKeyData) != "key" {
		t.Errorf("got %+v, %+v", c.Clusters["a"], c.AuthInfos["a"])
	}
}

func TestSettingsOfAUserAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	theirs := `apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://old", proxy-url: "http://proxy:3128", insecure-skip-tls-verify: true, certificate-authority: /old/ca.crt}}
contexts:
- {name: a, context: {cluster: a, user: somebody, namespace: apps}}
- {name: mine, context: {cluster: b, user: me}}
current-context: mine
users:
- {name: somebody, user: {token: t}}
- {name: a, user: {token: u}}
`
	if err := os.WriteFile(path, []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	write := func(e Entry) *clientapi.Config {
		t.Helper()
		if err := Write(path, e); err != nil {
			t.Fatal(err)
		}
		c, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := write(Entry{Cluster: "a", Server: "https://new", CA: []byte("ca")})
	if got := c.Clusters["a"]; got.Server != "https://new" || got.ProxyURL != "http://proxy:3128" || got.InsecureSkipTLSVerify || got.CertificateAuthority != "" {
		t.Errorf("cluster is %+v", got)
	}
	if got := c.Contexts["a"]; got.Namespace != "apps" || got.AuthInfo != "somebody" {
		t.Errorf("context is %+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	if c = write(Entry{Cluster: "a", Exec: &clientapi.ExecConfig{Command: "kops", APIVersion: "client.authentication.k8s.io/v1"}}); c.Contexts["a"].AuthInfo != "a" || c.AuthInfos["a"].Exec == nil || c.AuthInfos["a"].Token != "" {
		t.Errorf("with a command: %+v, %+v", c.Contexts["a"], c.AuthInfos["a"])
	}
	if c = write(Entry{Cluster: "a", User: "somebody", Certificate: []byte("cert")}); c.Contexts["a"].AuthInfo != "somebody" || c.AuthInfos["a"].Exec == nil {
		t.Errorf("with a user: %+v, %+v", c.Contexts["a"], c.AuthInfos["a"])
	}
}

func TestRemoveLeavesOthersCurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for _, name := range []string{"a", "b"} {
		if err := Write(path, Entry{Cluster: name, Certificate: []byte("cert"), Key: []byte("key")}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Remove(path, "a"); !found || err != nil {
		t.Fatalf("Remove = %v, %v", found, err)
	}
	if got := CurrentCluster(path); got != "b" || HasUser(path, "a") || !HasUser(path, "b") {
		t.Errorf("current %q, credentials of a %t, of b %t", got, HasUser(path, "a"), HasUser(path, "b"))
	}
}

// Of several files, one may set the current context and another define it.
func TestRemoveForgetsACurrentContextOfAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	const text = "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Remove(path, "b"); found || err != nil {
		t.Errorf("another cluster: Remove = %v, %v", found, err)
	}
	if found, err := Remove(path, "a"); !found || err != nil {
		t.Errorf("Remove = %v, %v", found, err)
	}
	if left, err := os.ReadFile(path); err != nil || strings.Contains(string(left), "current-context: a") {
		t.Errorf("left is %s, %v", left, err)
	}
}

// A pipe is written without being read, which would wait for another program to write.
func TestAPipeIsOnlyWritten(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", w.Fd())
	if err := Write(path, Entry{Cluster: "a", Server: "https://a"}); err != nil {
		t.Fatal(err)
	}
	if HasUser(path, "a") {
		t.Error("credentials that nobody wrote")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !strings.Contains(string(got), "server: https://a") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("{not yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, Entry{Cluster: "a"}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("broken file: %v", err)
	}
	for text, want := range map[string]bool{"hello: world\n": false, "": true, "# mine\n": true, "apiVersion: v1\nkind: Config\npreferences: {}\n": true} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, Entry{Cluster: "a"}); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "it has other contents; correct or move the file") {
			t.Errorf("a file with %q: %v", text, err)
		}
	}
	good := filepath.Join(t.TempDir(), "config")
	if err := Write(good, Entry{Cluster: "a", User: "nobody"}); err == nil || !strings.Contains(err.Error(), `no user "nobody"`) {
		t.Errorf("missing user: %v", err)
	}
}

// An administrator's certificate is reissued with the authorities, and no other certificate is; the
// current context and other entries stay.
func TestAFileIsDeletedWithTheKeysOfItsCluster(t *testing.T) {
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	ca, _, err := issuer.Add(nil, pki.KubernetesCA, pki.NewItem{Primary: true})
	if err != nil {
		t.Fatal(err)
	}
	both, _, err := issuer.Add(ca, pki.KubernetesCA, pki.NewItem{Primary: true})
	if err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]struct {
		groups string
		issued bool
	}{"an administrator": {"system:masters", true}, "somebody": {"developers", false}} {
		pair, err := issuer.Issue(pki.Request{Usage: pki.Client, CommonName: "who", Organization: []string{c.groups}, Validity: time.Hour}, ca)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "config")
		for _, e := range []Entry{
			{Cluster: "a", Server: "https://a", CA: []byte(ca.Bundle()), Certificate: pki.EncodeCertificate(pair.Certificate), Key: []byte("old")},
			{Cluster: "b", Server: "https://b", CA: []byte(ca.Bundle()), Certificate: []byte("theirs"), Key: []byte("theirs")},
		} {
			if err := Write(path, e); err != nil {
				t.Fatal(err)
			}
		}
		asked := time.Time{}
		issue := func(ends time.Time) ([]byte, []byte, error) {
			asked = ends
			return []byte("certificate"), []byte("key"), nil
		}
		changed, err := Renew(path, "a", []byte(both.Bundle()), issue)
		if err != nil || !changed || asked.Equal(pair.Certificate.NotAfter) != c.issued {
			t.Errorf("%s: changed %v, asked for one that ends at %v: %v", who, changed, asked, err)
		}
		got, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if key := string(got.AuthInfos["a"].ClientKeyData); (key == "key") != c.issued || (key == "old") == c.issued {
			t.Errorf("%s has the key %s", who, key)
		}
		if string(got.Clusters["a"].CertificateAuthorityData) != both.Bundle() || got.Clusters["a"].Server != "https://a" || string(got.Clusters["b"].CertificateAuthorityData) != ca.Bundle() || got.CurrentContext != "b" {
			t.Errorf("%s: the clusters are %+v, and the current one is %s", who, got.Clusters, got.CurrentContext)
		}
		if changed, err := Renew(path, "a", []byte(both.Bundle()), nil); changed || err != nil {
			t.Errorf("%s: the same authorities were written again: %v", who, err)
		}
		if changed, err := Renew(path, "none", []byte(both.Bundle()), issue); changed || err != nil {
			t.Errorf("%s: a cluster that the file has not: %v", who, err)
		}
	}
}

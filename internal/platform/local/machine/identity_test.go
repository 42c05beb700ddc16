package machine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"testing"

	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/site"
)

func TestTheRegistryDescribesAMachine(t *testing.T) {
	h := Host{Site: site.Site{Root: t.TempDir(), Cluster: "demo.k8s.local"}}
	private, err := h.register(Spec{Name: "nodes-1", Group: "nodes", Address: netip.MustParsePrefix("10.77.0.11/24"), Labels: map[string]string{"role": "node"}})
	if err != nil {
		t.Fatal(err)
	}
	var got localcloud.Machine
	if ok, err := site.ReadJSON(h.Path(site.Registry, "nodes-1.json"), &got); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got.Name != "nodes-1" || got.Group != "nodes" || got.Address != "10.77.0.11" || got.Labels["role"] != "node" {
		t.Errorf("got %+v", got)
	}
	own, told := decode(t, private, "PRIVATE KEY"), decode(t, []byte(got.PublicKey), "PUBLIC KEY")
	key, err := x509.ParsePKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.ParsePKIXPublicKey(told)
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := key.(*ecdsa.PrivateKey); !ok || k.Curve != elliptic.P256() || !k.PublicKey.Equal(public) {
		t.Errorf("the machine has a %T, and the registry tells of a %T", key, public)
	}
}

func decode(t *testing.T, text []byte, kind string) []byte {
	t.Helper()
	b, rest := pem.Decode(text)
	if b == nil || b.Type != kind || len(rest) > 0 {
		t.Fatalf("no %s: %s", kind, text)
	}
	return b.Bytes
}

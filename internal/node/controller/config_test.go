package controller

import (
	"encoding/pem"
	"slices"
	"testing"
	"testing/fstest"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// folder returns the key material of authorities in the form that a control plane has on disk.
func folder(t *testing.T, keysets map[string]*pki.Keyset) fstest.MapFS {
	t.Helper()
	out, ids := fstest.MapFS{}, ""
	for n, k := range keysets {
		key, err := k.Signer().Key.PEM()
		if err != nil {
			t.Fatal(err)
		}
		out[n+".key"], out[n+".crt"] = &fstest.MapFile{Data: key}, &fstest.MapFile{Data: []byte(k.Bundle())}
		ids += n + ": \"" + k.Primary + "\"\n"
	}
	out["keypair-ids.yaml"] = &fstest.MapFile{Data: []byte(ids)}
	return out
}

func TestTheSignersCertificateMatchesItsKey(t *testing.T) {
	first, err := fastIssuer().SelfSigned(pki.Request{Usage: pki.Authority, CommonName: "old"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := fastIssuer().SelfSigned(pki.Request{Usage: pki.Authority, CommonName: "new"})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := pki.NewKeyset("kubernetes-ca", "2", pki.Item{ID: "1", Certificate: first.Certificate, Key: first.Key}, pki.Item{ID: "2", Certificate: second.Certificate, Key: second.Key})
	if err != nil {
		t.Fatal(err)
	}
	files := folder(t, map[string]*pki.Keyset{"kubernetes-ca": rotated})
	got, err := LoadSigners(files, []string{"kubernetes-ca"})
	if err != nil {
		t.Fatal(err)
	}
	if k := got["kubernetes-ca"]; k.Primary != "2" || k.Signer().Certificate.Subject.CommonName != "new" {
		t.Errorf("signs as %s, %s", k.Primary, k.Signer().Certificate.Subject)
	}
	for name, change := range map[string]func(fstest.MapFS){
		"no identifier":         func(f fstest.MapFS) { f["keypair-ids.yaml"] = &fstest.MapFile{Data: []byte("{}")} },
		"no file":               func(f fstest.MapFS) { delete(f, "keypair-ids.yaml") },
		"no key":                func(f fstest.MapFS) { delete(f, "kubernetes-ca.key") },
		"another's certificate": func(f fstest.MapFS) { f["kubernetes-ca.crt"].Data = pki.EncodeCertificate(first.Certificate) },
		"no certificate":        func(f fstest.MapFS) { f["kubernetes-ca.crt"].Data = []byte("hello") },
		"a broken certificate": func(f fstest.MapFS) {
			f["kubernetes-ca.crt"].Data = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		},
	} {
		files := folder(t, map[string]*pki.Keyset{"kubernetes-ca": rotated})
		change(files)
		if _, err := LoadSigners(files, []string{"kubernetes-ca"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMarksComeFromTheGroup(t *testing.T) {
	w := newWorld(t)
	w.put(t, "igconfig/control-plane/cp/nodeupconfig.yaml", "KubeletConfig:\n  nodeLabels:\n    node-role.kubernetes.io/control-plane: \"\"\n  taints:\n  - node-role.kubernetes.io/control-plane=:NoSchedule\n")
	s := Stored{Base: w.store, Secrets: w.store}
	got, err := s.Marks(t.Context(), "nodes")
	if err != nil || len(got.Labels) != 3 || got.Labels["example.com/disk"] != "fast" || got.Labels[api.LabelInstanceGroup] != "nodes" || len(got.Taints) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.Marks(t.Context(), "cp"); err != nil || len(got.Labels) != 2 || !slices.Equal(texts(got.Taints), []string{"node-role.kubernetes.io/control-plane:NoSchedule"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"absent", "../nodes", ""} {
		if _, err := s.Marks(t.Context(), bad); !fault.Is(err, fault.Gone) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := s.Machine(t.Context(), "../x"); !fault.Is(err, fault.Gone) {
		t.Error(err)
	}
	if _, err := w.store.Put(t.Context(), layout.MachineKey("bad"), []byte("{"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Machine(t.Context(), "bad"); !fault.Is(err, fault.Permanent) {
		t.Error(err)
	}
}

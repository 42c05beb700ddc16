package controller

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/store"
)

// issueCertificate returns a certificate and its key, signed by an authority at a given time.
func issueCertificate(t *testing.T, ca *pki.Keyset, at time.Time, commonName string, r pki.Request) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	r.Usage, r.CommonName, r.PublicKey, r.Validity = pki.Client, commonName, key.Public(), 24*time.Hour
	issuer := fastIssuer()
	issuer.Now = func() time.Time { return at }
	p, err := issuer.Issue(r, ca)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: crypto.PrivateKey(key)}
}

// While a node exists, its machine's proof is not enough: every program that reaches
// the platform's services from the machine's network can produce it.
func TestWhileANodeIsThereItsMachineRenews(t *testing.T) {
	w := newWorld(t)
	ca, nodes := w.server.Signers[pki.KubernetesCA], pki.Request{Organization: []string{"system:nodes"}}
	elsewhere, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, fastIssuer())
	if err != nil {
		t.Fatal(err)
	}
	client := w.join(t, "node-1")
	now := time.Now()
	own := issueCertificate(t, ca, now, "system:node:node-1", nodes)
	ended := issueCertificate(t, ca, now.Add(-30*time.Hour), "system:node:node-1", nodes)
	if c, err := x509.ParseCertificate(ended.Certificate[0]); err != nil || c.NotAfter.After(now) {
		t.Fatalf("the ended certificate ends at %v: %v", c.NotAfter, err)
	}
	for name, tt := range map[string]struct {
		state NodeState
		held  *tls.Certificate
		certs error // nil: certificates are issued
		conf  error
	}{
		"no node, no certificate":             {NodeAbsent, nil, nil, nil},
		"ready, no certificate":               {NodeReady, nil, bootstrap.ErrReady, bootstrap.ErrReady},
		"ready, its own":                      {NodeReady, own, nil, bootstrap.ErrReady},
		"ready, its own, which has ended":     {NodeReady, ended, nil, bootstrap.ErrReady},
		"ready, that of another node":         {NodeReady, issueCertificate(t, ca, now, "system:node:node-2", nodes), bootstrap.ErrReady, bootstrap.ErrReady},
		"ready, of no node's group":           {NodeReady, issueCertificate(t, ca, now, "system:node:node-1", pki.Request{}), bootstrap.ErrReady, bootstrap.ErrReady},
		"ready, by another authority":         {NodeReady, issueCertificate(t, elsewhere[pki.KubernetesCA], now, "system:node:node-1", nodes), bootstrap.ErrReady, bootstrap.ErrReady},
		"not ready, no certificate":           {NodeNotReady, nil, errDenied, errDenied},
		"not ready, that of another node":     {NodeNotReady, issueCertificate(t, ca, now, "system:node:node-2", nodes), errDenied, errDenied},
		"not ready, its own":                  {NodeNotReady, own, nil, nil},
		"not ready, its own, which has ended": {NodeNotReady, ended, nil, nil},
	} {
		w.nodes["node-1"] = tt.state
		client.Transport = w.transport(t, tt.held)
		_, public := keys(t, "kubelet")
		_, got := client.Certificates(t.Context(), public, w.keypairs)
		checkError(t, name+": certificates", got, tt.certs)
		_, got = client.NodeConfig(t.Context())
		checkError(t, name+": configuration", got, tt.conf)
	}
}

// A machine that is changed in place can get its configuration again, and no other sender can.
func TestAMachineThatIsChangedInPlace(t *testing.T) {
	w := newWorld(t)
	w.server.InPlace = true
	client := w.join(t, "node-1")
	own := issueCertificate(t, w.server.Signers[pki.KubernetesCA], time.Now(), "system:node:node-1", pki.Request{Organization: []string{"system:nodes"}})
	for state, others := range map[NodeState]error{NodeReady: bootstrap.ErrReady, NodeNotReady: errDenied} {
		w.nodes["node-1"] = state
		client.Transport = w.transport(t, nil)
		_, err := client.NodeConfig(t.Context())
		checkError(t, "without the kubelet's certificate", err, others)
		client.Transport = w.transport(t, own)
		_, err = client.NodeConfig(t.Context())
		checkError(t, "with it", err, nil)
	}
}

// On every platform this also holds for a machine that specifies which configuration it takes,
// in any state of its node; and it gets no other configuration.
func TestAMachineWithARequestedChange(t *testing.T) {
	w := newWorld(t)
	client := w.join(t, "node-1")
	ca, nodes := w.server.Signers[pki.KubernetesCA], pki.Request{Organization: []string{"system:nodes"}}
	own, other := issueCertificate(t, ca, time.Now(), "system:node:node-1", nodes), issueCertificate(t, ca, time.Now(), "system:node:node-2", nodes)
	for _, state := range []NodeState{NodeReady, NodeNotReady, NodeAbsent} {
		w.nodes["node-1"] = state
		for _, c := range []*tls.Certificate{nil, other} {
			client.Transport = w.transport(t, c)
			_, err := client.NodeConfigOf(t.Context(), nodeconfig.Hash([]byte(config)))
			checkError(t, "without the kubelet's certificate", err, errDenied)
		}
		client.Transport = w.transport(t, own)
		got, err := client.NodeConfigOf(t.Context(), nodeconfig.Hash([]byte(config)))
		if err != nil || got.NodeupConfig != config {
			t.Errorf("with it: %+v, %v", got, err)
		}
		_, err = client.NodeConfigOf(t.Context(), nodeconfig.Hash([]byte("another")))
		if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "has the hash "+nodeconfig.Hash([]byte(config))) {
			t.Errorf("of another hash: %v", err)
		}
	}
}

var errDenied = errors.New("denied")

func checkError(t *testing.T, what string, got, want error) {
	t.Helper()
	switch {
	case errors.Is(want, errDenied):
		if !fault.Is(got, fault.Denied) || !strings.Contains(got.Error(), "kubectl delete node node-1") {
			t.Errorf("%s: %v", what, got)
		}
	case !errors.Is(got, want):
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Nobody may join under the name of a control-plane machine, with any proof.
func TestMachinesOfTheControlPlaneDoNotJoin(t *testing.T) {
	w := newWorld(t)
	client := w.join(t, "node-1")
	if err := w.store.Delete(t.Context(), "igconfig/node/nodes/nodeupconfig.yaml", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, public := keys(t, "kubelet")
	if _, err := client.Certificates(t.Context(), public, w.keypairs); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "has no node configuration") {
		t.Errorf("of a group that is not there: %v", err)
	}
	w.put(t, "igconfig/control-plane/nodes/nodeupconfig.yaml", config)
	if _, err := client.Certificates(t.Context(), public, w.keypairs); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "ControlPlane") {
		t.Errorf("of the control plane: %v", err)
	}
}

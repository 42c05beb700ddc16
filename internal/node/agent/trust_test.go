package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
)

// Programs read the authorities that they trust only at startup.
func TestProgramsAreRestartedWithANewAuthority(t *testing.T) {
	other, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer())
	if err != nil {
		t.Fatal(err)
	}
	ofAll := []string{"kops-channels.manifest", "kube-apiserver.manifest", "kube-controller-manager.manifest", "kube-proxy.manifest", "kube-scheduler.manifest", "kubelet.service"}
	for keyset, want := range map[string][]string{
		pki.KubernetesCA:           ofAll,
		pki.AggregatorCA:           {"kube-apiserver.manifest"},
		pki.EtcdClientsCA:          {"etcd-events-control-plane.manifest", "etcd-main-control-plane.manifest", "kube-apiserver.manifest"},
		pki.EtcdPeersCA("main"):    {"etcd-main-control-plane.manifest"},
		pki.EtcdManagerCA("event"): nil,
	} {
		w := newWorld(t, controlPlane)
		var boot nodeconfig.Boot
		w.decode(string(w.boot), &boot)
		for _, e := range []string{"main", "events"} {
			w.store[boot.ConfigBase+"/manifests/etcd/"+e+"-control-plane.yaml"] = []byte("kind: Pod\n")
		}
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		c, err := nodeconfig.Parse(w.config)
		if err != nil {
			t.Fatal(err)
		}
		c.CAs = maps.Clone(c.CAs)
		c.CAs[keyset] += other[pki.KubernetesCA].Bundle()
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		w.store[boot.ConfigBase+"/igconfig/control-plane/"+boot.InstanceGroupName+"/nodeupconfig.yaml"] = text
		w.boot = bytes.ReplaceAll(w.boot, []byte(boot.NodeupConfigHash), []byte(base64.StdEncoding.EncodeToString(sum[:])))
		var journal bytes.Buffer
		a := w.agent()
		a.Journal = &journal
		if err := a.Converge(context.Background(), w.boot); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range doneSteps(&journal) {
			if name := step[strings.LastIndex(step, "/")+1:]; strings.HasSuffix(name, ".manifest") || strings.HasSuffix(name, ".service") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with another %s: %v were written, want %v", keyset, got, want)
		}
	}
}

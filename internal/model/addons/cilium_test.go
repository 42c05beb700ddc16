package addons_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
)

const ciliumAddon = "networking.cilium.io"

func TestCiliumOnIPv6(t *testing.T) {
	r := build(t, cluster(t, func(s *api.ClusterSpec) {
		s.Networking.NonMasqueradeCIDR = "::/0"
		s.Networking.Cilium = &api.CiliumNetworkingSpec{Masquerade: ptr(true), EnableBPFMasquerade: ptr(true)}
	}))
	config := object[corev1.ConfigMap](t, r, ciliumAddon, "ConfigMap", "cilium-config").Data
	for key, want := range map[string]string{
		"enable-ipv4": "false", "enable-ipv6": "true", "enable-ipv4-masquerade": "false", "enable-ipv6-masquerade": "false", "enable-bpf-masquerade": "false",
		"routing-mode": "native", "ipv4-native-routing-cidr": "", "operator-api-serve-addr": "[::1]:9234",
	} {
		if config[key] != want {
			t.Errorf("%s is %q", key, config[key])
		}
	}
	agent := object[appsv1.DaemonSet](t, r, ciliumAddon, "DaemonSet", "cilium").Spec.Template.Spec.Containers[0]
	operator := object[appsv1.Deployment](t, r, ciliumAddon, "Deployment", "cilium-operator").Spec.Template.Spec.Containers[0]
	for _, p := range []*corev1.Probe{agent.StartupProbe, agent.LivenessProbe, agent.ReadinessProbe, operator.LivenessProbe, operator.ReadinessProbe} {
		if p.HTTPGet.Host != "::1" {
			t.Errorf("a probe asks %s", p.HTTPGet.Host)
		}
	}
}

// A selector cannot be changed: another one would make kOps or kops delete all agents at once.
func TestSelectorsOfCilium(t *testing.T) {
	r := build(t, cluster(t, variants()["cilium"]))
	labels := func(l map[string]string) string {
		var out []string
		for k, v := range l {
			out = append(out, k+"="+v)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got := labels(object[appsv1.DaemonSet](t, r, ciliumAddon, "DaemonSet", "cilium").Spec.Selector.MatchLabels); got != "k8s-app=cilium kubernetes.io/cluster-service=true" {
		t.Errorf("agents: %s", got)
	}
	if got := labels(object[appsv1.Deployment](t, r, ciliumAddon, "Deployment", "cilium-operator").Spec.Selector.MatchLabels); got != "io.cilium/app=operator name=cilium-operator" {
		t.Errorf("operators: %s", got)
	}
	if got := labels(object[appsv1.Deployment](t, r, ciliumAddon, "Deployment", "hubble-relay").Spec.Selector.MatchLabels); got != "k8s-app=hubble-relay" {
		t.Errorf("relays: %s", got)
	}
}

func TestKeysOfIPsec(t *testing.T) {
	const key = "3+ rfc4106(gcm(aes)) 0123 128\n"
	for secret, want := range map[string]string{"keys: " + key: strings.TrimSpace(key), key: key} {
		in := cluster(t, func(s *api.ClusterSpec) { s.Networking.Cilium = &api.CiliumNetworkingSpec{EnableEncryption: true} })
		in.Secrets = map[string]pki.Secret{pki.CiliumPassword: pki.NewSecret(secret)}
		r := build(t, in)
		if got := object[corev1.Secret](t, r, ciliumAddon, "Secret", "cilium-ipsec-keys").StringData["keys"]; got != want {
			t.Errorf("%q becomes %q", secret, got)
		}
		in.Secrets = nil
		for _, f := range build(t, in).Files {
			if strings.Contains(string(f.Content), "kind: Secret") {
				t.Errorf("%s has a Secret", f.Name)
			}
		}
	}
}

package stale

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/spec/effects"
)

// TestEveryPartOfAConfigurationIsOfAField checks that a difference in any part of a configuration
// is explained by an existing field of the spec.
func TestEveryPartOfAConfigurationIsOfAField(t *testing.T) {
	var keys []string
	for _, of := range []struct {
		t  reflect.Type
		at string
	}{{reflect.TypeFor[nodeconfig.Config](), ""}, {reflect.TypeFor[nodeconfig.APIServer](), "APIServerConfig."}, {reflect.TypeFor[nodeconfig.ControlPlane](), "ControlPlaneConfig."}} {
		for i := range of.t.NumField() {
			name, _, _ := strings.Cut(of.t.Field(i).Tag.Get("json"), ",")
			if name != "ControlPlaneConfig" { // its parts have entries
				keys = append(keys, of.at+name)
			}
		}
	}
	for _, key := range keys {
		if !slices.ContainsFunc(fields(), func(f field) bool { return f.Key == key }) && !strings.HasPrefix(fieldOf(key).Field, "spec.cloudProvider.") {
			t.Errorf("%s is of no field of the spec", key)
		}
	}
	for _, f := range fields() {
		if strings.HasPrefix(f.Field, "spec.") == (f.Effect != None) {
			t.Errorf("%s: an effect is said here where no spec has the field: %q, %v", f.Key, f.Field, f.Effect)
		}
		if strings.HasPrefix(f.Field, "spec.") && !isKnown(f.Field) {
			t.Errorf("%s: no object has the field %s", f.Key, f.Field)
		}
		if parent, _, below := strings.Cut(f.Key, "."); !below && !slices.Contains(keys, parent) {
			t.Errorf("no configuration has %s", f.Key)
		}
	}
}

func isKnown(path string) bool {
	_, group := (effects.Table{}).Of(api.KindInstanceGroup, path)
	_, cluster := (effects.Table{}).Of(api.KindCluster, path)
	return group || cluster
}

func TestDifferences(t *testing.T) {
	in := In{Effects: effects.Table{Cluster: []effects.Entry{{Path: "spec.cloudProvider.aws.elbSecurityGroup", Effect: Restart}}}}
	for _, c := range []struct{ name, old, now, want string }{
		{"a new version of Kubernetes, and what follows from it",
			"KubernetesVersion: 1.35.4\nKubeProxy: {image: 'r/kube-proxy:v1.35.4@sha256:aa'}\nAssets: {amd64: ['aa@https://dl/v1.35.4/kubelet,https://m/kubelet']}\n",
			"KubernetesVersion: 1.36.3\nKubeProxy: {image: 'r/kube-proxy:v1.36.3@sha256:bb'}\nAssets: {amd64: ['bb@https://dl/v1.36.3/kubelet']}\n",
			"spec.kubernetesVersion: 1.35.4 -> 1.36.3 replace"},
		{"the same files from elsewhere", "Assets: {amd64: ['aa@https://a/kubelet']}\n", "Assets: {amd64: ['aa@https://b/kubelet']}\n", "the node configuration has a different form:  ->  none"},
		{"a new release of containerd", "Assets: {amd64: ['aa@https://dl/containerd-2.1.tgz']}\n", "Assets: {amd64: ['bb@https://dl/containerd-2.2.tgz']}\n",
			"file containerd-2.1.tgz: aa ->  restart; file containerd-2.2.tgz:  -> bb restart"},
		{"lists", "SysctlParameters: [a=1]\nFileAssets: [{name: f, path: /f, content: x}]\n", "SysctlParameters: [a=1, b=2]\nFileAssets: [{name: f, path: /f, content: z}]\n",
			"spec.fileAssets[f].content: x -> z restart; spec.sysctlParameters: a=1 -> a=1, b=2 restart"},
		{"the password of a proxy", "Networking: {egressProxy: {httpProxy: {host: 'u:hush@proxy'}}}\n", "Networking: {egressProxy: {httpProxy: {host: 'u:hush2@proxy'}}}\n",
			"spec.networking.egressProxy.httpProxy.host: xxxxx@proxy -> xxxxx@proxy replace"},
		{"another network", "Networking: {calico: {wireguardEnabled: true}}\n", "Networking: {cilium: {}}\n",
			"spec.networking.calico: {} ->  replace; spec.networking.cilium:  -> {} replace"},
		{"another network, and what follows from it", "Networking: {kubenet: {}}\nUsesKubenet: true\n", "Networking: {cilium: {}}\n",
			"spec.networking.cilium:  -> {} replace; spec.networking.kubenet: {} ->  replace"},
		{"a network, of which only what follows from it differs", "UsesKubenet: true\n", "ClusterName: ''\n", "spec.networking:  ->  replace"},
		{"digests are cut", "Assets: {amd64: ['" + strings.Repeat("ab", 32) + "@https://dl/cni.tgz']}\n", "ClusterName: ''\n", "file cni.tgz: abababab ->  restart"},
		{"a number of control planes", "APIServerConfig: {KubeAPIServer: {apiServerCount: 3}}\n", "APIServerConfig: {KubeAPIServer: {apiServerCount: 1}}\n", "spec.kubeAPIServer.apiServerCount: 3 -> 1 none"},
		{"a block that was not there", "ClusterName: c\n", "ClusterName: c\ncontainerdConfig: {logLevel: info}\n", "spec.containerd.logLevel:  -> info restart"},
		{"an authority of a control plane", "configStore: {keypairs: k}\nCAs: {kubernetes-ca: a}\nKeypairIDs: {kubernetes-ca: '1'}\n", "configStore: {keypairs: k}\nCAs: {kubernetes-ca: b}\nKeypairIDs: {kubernetes-ca: '2'}\n",
			"keypair kubernetes-ca: a -> b restart"},
		{"an authority of a worker", "KeypairIDs: {kubernetes-ca: '1'}\n", "KeypairIDs: {kubernetes-ca: '2'}\n", "keypair kubernetes-ca: 1 -> 2 replace"},
		{"an authority more, of a worker", "KeypairIDs: {kubernetes-ca: '1'}\n", "CAs: {kubernetes-ca: b}\nKeypairIDs: {kubernetes-ca: '1'}\n", "keypair kubernetes-ca:  -> b restart"},
		{"another that signs, of a worker that does not believe it yet", "CAs: {kubernetes-ca: a}\nKeypairIDs: {kubernetes-ca: '1'}\n", "CAs: {kubernetes-ca: b}\nKeypairIDs: {kubernetes-ca: '2'}\n",
			"keypair kubernetes-ca: a -> b replace"},
		{"the secret of encryption", "APIServerConfig: {EncryptionConfigSecretHash: a}\n", "APIServerConfig: {EncryptionConfigSecretHash: b}\n", "secret encryptionconfig: a -> b restart"},
		{"a secret to pull images by", "dockerConfigDigest: a\n", "dockerConfigDigest: b\n", "secret dockerconfig: a -> b restart"},
		{"no secret to pull images by any more", "dockerConfigDigest: a\n", "ClusterName: ''\n", "secret dockerconfig: a ->  restart"},
		{"something that no version of kops here knows", "Future: {a: 1}\n", "Future: {a: 2}\n", "node configuration Future.a: 1 -> 2 replace"},
		{"fields of clouds", "elbSecurityGroup: a\nAzureAdminUser: a\nOpenstack: {loadbalancer: {method: a}}\n", "elbSecurityGroup: b\nAzureAdminUser: b\nOpenstack: {loadbalancer: {method: b}}\n",
			"spec.cloudProvider.azure.adminUser: a -> b replace; spec.cloudProvider.openstack.loadbalancer.method: a -> b replace; spec.cloudProvider.aws.elbSecurityGroup: a -> b restart"},
		{"a long text", "FileAssets: [{name: f, content: '" + strings.Repeat("x", 200) + "'}]\n", "FileAssets: [{name: f, content: short}]\n",
			"spec.fileAssets[f].content: 200 bytes, sha256 aa20c23e -> short restart"},
		{"a damaged configuration", "][", "ClusterName: c\n", "node configuration: old -> now replace"},
	} {
		var got []string
		for _, r := range in.differences([]byte(c.old), []byte(c.now), "old", "now") {
			got = append(got, fmt.Sprintf("%s: %s -> %s %s", r.Field, r.Have, r.Want, r.Effect))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, s, c.want)
		}
	}
}

// A worker can be updated in place to another authority if it trusts it already: kops-controller,
// whose certificate that authority signed, gives the worker its configuration.
func TestAWorkerAcceptsATrustedAuthority(t *testing.T) {
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	one, first, err := issuer.Add(nil, pki.KubernetesCA, pki.NewItem{Primary: true})
	if err != nil {
		t.Fatal(err)
	}
	both, second, err := issuer.Add(one, pki.KubernetesCA, pki.NewItem{})
	if err != nil {
		t.Fatal(err)
	}
	config := func(k *pki.Keyset, id string) []byte {
		text, err := (&nodeconfig.Config{CAs: map[string]string{pki.KubernetesCA: k.Bundle()}, KeypairIDs: map[string]string{pki.KubernetesCA: id}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, c := range []struct {
		believes *pki.Keyset
		want     Effect
	}{{both, Restart}, {one, Replace}} {
		got := In{}.differences(config(c.believes, first), config(both, second), "old", "now")
		if len(got) != 1 || got[0].Field != "keypair kubernetes-ca" || got[0].Effect != c.want {
			t.Errorf("a worker that believes %d: %v, want %v", len(c.believes.Items), got, c.want)
		}
	}
}

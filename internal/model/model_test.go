package model_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/diag"
)

// build returns the files of an input by name, and the warnings.
func build(t *testing.T, in model.Input) (map[string]*managedfile.File, []string) {
	t.Helper()
	nodes, findings, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	for _, f := range findings {
		if !f.Warning {
			t.Errorf("not a warning: %s", f)
		}
		warnings = append(warnings, f.String())
	}
	return files(t, nodes), warnings
}

// config returns the node configuration of a group.
func config(t *testing.T, in model.Input, g *api.InstanceGroup) nodeconfig.Config {
	t.Helper()
	all, _ := build(t, in)
	text, _ := all["nodeupconfig-"+g.Name].Content.Value().Known()
	var c nodeconfig.Config
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFilesAndHooksDependOnTheRole(t *testing.T) {
	in := input(t, golden+"irsa")
	g := group(t, in, api.RoleNode)
	s := &in.Cluster.Spec
	s.FileAssets = []api.FileAssetSpec{{Name: "all", Content: "1"}, {Name: "cp", Roles: []api.InstanceGroupRole{api.RoleControlPlane}}}
	g.Spec.FileAssets = []api.FileAssetSpec{{Name: "own", Roles: []api.InstanceGroupRole{api.RoleNode}}}
	s.Hooks = []api.HookSpec{{Name: "h", Roles: []api.InstanceGroupRole{api.RoleNode}}, {Name: "cp", Roles: []api.InstanceGroupRole{api.RoleControlPlane}}}
	g.Spec.Hooks = []api.HookSpec{{Name: "own"}}
	s.SysctlParameters, g.Spec.SysctlParameters = []string{"a=1"}, []string{"b=2"}
	s.Packages, g.Spec.Packages = []string{"p"}, []string{"q"}
	g.Spec.UpdatePolicy = ptr("external")
	s.NTP = &api.NTPConfig{Managed: ptr(false)}
	c := config(t, in, g)
	if len(c.FileAssets) != 2 || c.FileAssets[0].Name != "own" || c.FileAssets[0].Roles != nil || c.FileAssets[1].Name != "all" {
		t.Errorf("files %+v", c.FileAssets)
	}
	if len(c.Hooks[0]) != 1 || c.Hooks[0][0].Name != "own" || len(c.Hooks[1]) != 1 || c.Hooks[1][0].Name != "h" {
		t.Errorf("hooks %+v", c.Hooks)
	}
	if got := strings.Join(c.SysctlParameters, "|"); got != "# Custom sysctl parameters from instance group spec|b=2|# Custom sysctl parameters from cluster spec|a=1" {
		t.Errorf("sysctls %s", got)
	}
	if !slices.Equal(c.Packages, []string{"q", "p"}) || c.UpdatePolicy != "external" || !c.NTPUnmanaged {
		t.Errorf("packages %v, policy %s, NTP %v", c.Packages, c.UpdatePolicy, c.NTPUnmanaged)
	}
}

func TestAnIsolatedControlPlaneRunsNoKubeProxy(t *testing.T) {
	in := input(t, golden+"irsa")
	for _, isolated := range []bool{false, true} {
		in.Cluster.Spec.Networking.IsolateControlPlane = &isolated
		node, plane := config(t, in, group(t, in, api.RoleNode)), config(t, in, group(t, in, api.RoleControlPlane))
		if node.KubeProxy == nil || (plane.KubeProxy == nil) != isolated {
			t.Errorf("isolated %t: kube-proxy of nodes %v, of the control plane %v", isolated, node.KubeProxy != nil, plane.KubeProxy != nil)
		}
	}
}

func TestTrustByRole(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.EtcdClusters = append(in.Cluster.Spec.EtcdClusters, api.EtcdClusterSpec{Name: "cilium", Version: "3.5.31"})
	in.Cluster.Spec.Networking = api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{Version: "v1.18.12", EtcdManaged: true}, NonMasqueradeCIDR: "100.64.0.0/10"}
	var err error
	if in.Keysets, _, err = pki.Ensure(nil, pki.KeysetNames(in.Cluster), issuer()); err != nil {
		t.Fatal(err)
	}
	names := func(m map[string]string) string {
		var out []string
		for k := range m {
			out = append(out, k)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	node := group(t, in, api.RoleNode)
	for _, c := range []struct {
		role       api.InstanceGroupRole
		cas, pairs string
	}{
		{api.RoleNode, "etcd-clients-ca-cilium", "etcd-clients-ca-cilium kubernetes-ca"},
		{api.RoleAPIServer, "apiserver-aggregator-ca etcd-clients-ca kubernetes-ca", "apiserver-aggregator-ca etcd-clients-ca kubernetes-ca service-account"},
		{api.RoleControlPlane, strings.Join(slices.DeleteFunc(pki.KeysetNames(in.Cluster), func(n string) bool { return n == pki.ServiceAccount }), " "),
			strings.Join(pki.KeysetNames(in.Cluster), " ")},
	} {
		node.Spec.Role = c.role
		got := config(t, in, node)
		if names(got.CAs) != c.cas || names(got.KeypairIDs) != c.pairs {
			t.Errorf("%s believes %q and expects %q", c.role, names(got.CAs), names(got.KeypairIDs))
		}
	}
}

func TestHealthIsAskedAtThePortOfTheAPI(t *testing.T) {
	in := input(t, golden+"irsa")
	for port, want := range map[int32]string{0: "", 443: "", 6443: "- --secure-port=6443\n"} {
		in.Cluster.Spec.KubeAPIServer.SecurePort = port
		all, _ := build(t, in)
		text, known := all["manifests-static-kube-apiserver-healthcheck"].Content.Value().Known()
		if !known || !strings.Contains(text, want) || strings.Contains(text, "--secure-port") != (want != "") {
			t.Errorf("port %d:\n%s", port, text)
		}
	}
}

func TestTheSchedulersConfiguration(t *testing.T) {
	in := input(t, golden+"irsa")
	objects, err := addons.Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 7\nclientConnection: {kubeconfig: /elsewhere, contentType: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	in.Objects = objects
	in.Cluster.Spec.KubeScheduler.Burst = 9
	c := config(t, in, group(t, in, api.RoleControlPlane))
	want := "apiVersion: kubescheduler.config.k8s.io/v1\nclientConnection:\n  burst: 9\n  contentType: x\n  kubeconfig: /var/lib/kube-scheduler/kubeconfig\nkind: KubeSchedulerConfiguration\nparallelism: 7\n"
	if got := c.FileAssets[len(c.FileAssets)-1].Content; got != want {
		t.Errorf("%s", got)
	}
}

func TestNodesMayRunAnOlderKubernetes(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.KubernetesVersion, in.NodeVersion = "1.34.0", "1.32.0"
	node, cp := config(t, in, group(t, in, api.RoleNode)), config(t, in, group(t, in, api.RoleControlPlane))
	if node.KubernetesVersion != "1.32.0" || !strings.Contains(node.Assets["amd64"][0], "/v1.32.0/") || cp.KubernetesVersion != "1.34.0" || !strings.Contains(cp.Assets["amd64"][0], "/v1.34.0/") {
		t.Errorf("node %s %v, control plane %s", node.KubernetesVersion, node.Assets["amd64"][0], cp.KubernetesVersion)
	}
}

func TestAChangedEncryptionConfigurationChangesTheMachines(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.EncryptionConfig = ptr(true)
	seen := map[string]bool{}
	for _, secret := range []string{"a", "b"} {
		in.EncryptionConfig = pki.NewSecret(secret)
		h := config(t, in, group(t, in, api.RoleControlPlane)).APIServerConfig.EncryptionConfigSecretHash
		seen[h] = true
	}
	if len(seen) != 2 || seen[""] {
		t.Errorf("hashes %v", seen)
	}
}

func TestAChangedDockerConfigurationChangesTheMachines(t *testing.T) {
	in := input(t, golden+"irsa")
	for _, role := range []api.InstanceGroupRole{api.RoleControlPlane, api.RoleNode} {
		seen := map[string]bool{}
		for _, secret := range []string{"", `{"auths":{}}`, `{"auths":{"r":{}}}`} {
			in.DockerConfig = pki.NewSecret(secret)
			seen[config(t, in, group(t, in, role)).DockerConfigDigest] = true
		}
		if len(seen) != 3 || !seen[""] {
			t.Errorf("%s: digests %v", role, seen)
		}
	}
}

func TestFilesOfUnknownDigestAreRefused(t *testing.T) {
	const nodeup = "https://kops.internal/binaries/kops/1.34.0-beta.1/linux/"
	in := input(t, golden+"irsa")
	in.Facts.FileHashes = nil
	got, err := model.Unhashed(in)
	if err != nil || len(got) != 2 || got[0].Public != nodeup+"amd64/nodeup" || got[1].Public != nodeup+"arm64/nodeup" {
		t.Errorf("unhashed %v, %v", got, err)
	}
	in.Unfound = map[string]string{nodeup + "arm64/nodeup": "404 Not Found"}
	_, _, err = model.Build(in)
	var found diag.List
	if !errors.As(err, &found) || len(found) != 3 {
		t.Fatalf("%v", err)
	}
	want := "cannot verify 2 files that machines run as root: their SHA-256 is unknown; state it under fileHashes in a facts file (option:Facts), " +
		"put FILE.sha256 next to each file in an https:// repository (spec.assets.fileRepository), or accept the files unverified with option:AllowUnverified\n" +
		"  " + nodeup + "amd64/nodeup\n  " + nodeup + "arm64/nodeup: 404 Not Found"
	if err.Error() != want {
		t.Errorf("%s\nwant\n%s", err, want)
	}
	for name, sum := range map[string]string{"a digest": strings.Repeat("a", 64), "a command": "$(touch x)", "a part": "abcd"} {
		in.Facts.FileHashes = map[string]string{nodeup + "*/nodeup": sum}
		if _, _, err := model.Build(in); (err == nil) != (name == "a digest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilesThatTheUserAllowsAreNamed(t *testing.T) {
	const nodeup = "https://kops.internal/binaries/kops/1.34.0-beta.1/linux/"
	const containerd = "https://github.com/containerd/containerd/releases/download/v2.2.0/containerd-2.2.0-linux-"
	in := input(t, golden+"irsa")
	in.Facts.FileHashes, in.AllowUnverified = nil, true
	node := group(t, in, api.RoleNode)
	node.Spec.Containerd.Version = ptr("2.2.0")
	_, warnings := build(t, in)
	want := "machines run unverified files as root, as you allowed: " + containerd + "amd64.tar.gz, " + containerd + "arm64.tar.gz, " + nodeup + "amd64/nodeup, " + nodeup + "arm64/nodeup"
	if len(warnings) != 1 || warnings[0] != want {
		t.Errorf("warnings %v", warnings)
	}
	if lines := config(t, in, node).Assets["amd64"]; !slices.Contains(lines, "unverified@"+containerd+"amd64.tar.gz") {
		t.Errorf("machines are not told so: %v", lines)
	}
	if text := script(t, in, node, resource.Value{}); !strings.Contains(text, "\nNODEUP_HASH_AMD64=unverified\n") {
		t.Errorf("the boot script is not told so:\n%.300s", text)
	}
}

func TestNothingUncheckedComesWithoutTLS(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Facts.FileHashes, in.AllowUnverified = nil, true
	in.Cluster.Spec.Assets = &api.AssetsSpec{FileRepository: ptr("http://files.e.com/kops")}
	_, _, err := model.Build(in)
	if err == nil || !strings.HasPrefix(err.Error(), "spec.assets.fileRepository: has no TLS, and the SHA-256 of files that machines run as root is not known: https://kops.internal/binaries/kops/") ||
		!strings.HasSuffix(err.Error(), `/arm64/nodeup, got "http://files.e.com/kops"; use https://, or state the SHA-256 under fileHashes in a facts file (option:Facts)`) {
		t.Errorf("%v", err)
	}
	in.Facts.FileHashes = map[string]string{"*/nodeup": strings.Repeat("0", 64)}
	if _, warnings := build(t, in); len(warnings) != 0 {
		t.Errorf("all digests are known, and still: %v", warnings)
	}
}

func TestNoFileHoldsAPrivateKeyOrAToken(t *testing.T) {
	in := input(t, golden+"irsa")
	var err error
	if in.Tokens, err = pki.MissingTokens(nil, rand.Reader); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	private := 0
	for _, n := range nodes {
		switch x := n.Want.(type) {
		case *managedfile.Private:
			private++
			if !x.Content.Secret() || !n.Kind.KindDirect() {
				t.Errorf("%s can be shown", n.Address)
			}
		case *managedfile.File:
			text, _ := x.Content.Value().Known()
			if strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("%s holds a private key", n.Address)
			}
			for name, token := range in.Tokens {
				if strings.Contains(text, token.Reveal()) {
					t.Errorf("%s holds the token %s", n.Address, name)
				}
			}
		}
	}
	if want := len(pki.KeysetNames(in.Cluster)) + len(pki.TokenNames()); private != want {
		t.Errorf("%d files with key material, want %d", private, want)
	}
}

func TestConfigurationFollowsTheKeysetsItTrusts(t *testing.T) {
	nodes, _, err := model.Build(input(t, golden+"irsa"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		trusts := strings.HasPrefix(n.Name, "nodeupconfig-") || n.Name == "keys.json"
		if follows := slices.Contains(n.After, resource.Address{Kind: "keyset", Name: pki.KubernetesCA}); trusts && !follows {
			t.Errorf("%s does not follow the keysets", n.Address)
		}
	}
}

func TestAMissingKeysetIsAnError(t *testing.T) {
	in := input(t, golden+"irsa")
	delete(in.Keysets, pki.AggregatorCA)
	if _, _, err := model.Build(in); err == nil || err.Error() != "the keyset apiserver-aggregator-ca is missing" {
		t.Errorf("%v", err)
	}
}

func TestEtcdManagers(t *testing.T) {
	in := input(t, golden+"irsa")
	all, _ := build(t, in)
	text, _ := all["manifests-etcdmanager-events-master-us-test-1a"].Content.Value().Known()
	var p struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			HostNetwork bool
			HostPID     bool
			Containers  []struct {
				Command      []string
				VolumeMounts []struct{ Name, MountPath string }
				Env          []struct{ Name, Value string }
			}
			Volumes []struct {
				Name  string
				Image struct{ Reference string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	c := p.Spec.Containers[0]
	want := []string{"/go-runner", "--log-file=/var/log/etcd.log", "--also-stdout", "/ko-app/etcd-manager",
		"--backup-store=s3://testingBucket/clusters.example.com/minimal.example.com/backups/etcd/events", "--client-urls=https://__name__:4002",
		"--cluster-name=etcd-events", "--containerized=true", "--dns-suffix=.internal.minimal.example.com", "--grpc-port=3997", "--peer-urls=https://__name__:2381",
		"--quarantine-client-urls=https://__name__:3995", "--v=6", "--volume-name-tag=k8s.io/etcd/events", "--volume-provider=aws", "--volume-tag=k8s.io/etcd/events",
		"--volume-tag=k8s.io/role/control-plane=1", "--volume-tag=kubernetes.io/cluster/minimal.example.com=owned"}
	if !slices.Equal(c.Command, want) {
		t.Errorf("command %s", strings.Join(c.Command, "\n"))
	}
	if p.Metadata.Name != "etcd-manager-events" || p.Metadata.Namespace != "kube-system" || !p.Spec.HostNetwork || !p.Spec.HostPID {
		t.Errorf("%+v", p.Metadata)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	images := map[string]string{}
	for _, v := range p.Spec.Volumes {
		if mounts[v.Name] == "" {
			t.Errorf("the volume %s is not mounted", v.Name)
		}
		if v.Image.Reference != "" {
			images[mounts[v.Name]] = v.Image.Reference
		}
	}
	if fmt.Sprint(images) != "map[/opt/etcd-v3.5.31:registry.k8s.io/etcd:v3.5.31 /opt/etcd-v3.6.12:registry.k8s.io/etcd:v3.6.12 /opt/etcd-v3.7.0:registry.k8s.io/etcd:v3.7.0]" {
		t.Errorf("images %v", images)
	}
	environment := map[string]string{}
	for _, e := range c.Env {
		environment[e.Name] = e.Value
	}
	if environment["ETCD_MANAGER_DAILY_BACKUPS_RETENTION"] != "90d" || environment["AWS_REGION"] != "us-test-1" {
		t.Errorf("environment %v", environment)
	}
}

func TestAnEtcdClusterOfAnotherNameIsRefused(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.EtcdClusters[0].Name = "mine"
	var err error
	if in.Keysets, _, err = pki.Ensure(nil, pki.KeysetNames(in.Cluster), issuer()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := model.Build(in); err == nil || !strings.Contains(err.Error(), `there is no etcd cluster called "mine"`) {
		t.Errorf("%v", err)
	}
}

func TestAnyStoreHoldsTheFiles(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.ConfigStore.Base = "file:///srv/kops/minimal.example.com"
	nodes, _, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, n := range nodes {
		kinds[n.Address.Kind]++
	}
	if kinds["store_file"] < 18 || kinds["aws_s3_object"] != 4 { // the discovery documents and the etcd specs have stores of their own
		t.Errorf("kinds %v", kinds)
	}
}

func TestOpenDiscoveryDocuments(t *testing.T) {
	in := input(t, golden+"irsa")
	in.PublicDiscovery = true
	all, _ := build(t, in)
	if all["keys.json"].ACL != "public-read" || all["discovery.json"].ACL != "public-read" || all["kops-version.txt"].ACL != "" {
		t.Errorf("%q %q %q", all["keys.json"].ACL, all["discovery.json"].ACL, all["kops-version.txt"].ACL)
	}
}

func TestKarpenterGroupsHaveTheirScriptInTheStore(t *testing.T) {
	in := input(t, golden+"irsa")
	g := group(t, in, api.RoleNode)
	g.Spec.Manager = api.ManagerKarpenter
	keysets := []resource.Address{{Kind: managedfile.Keyset.Name, Name: "kubernetes-ca"}}
	n, err := model.Script(in, g, resource.Value{}, keysets)
	if err != nil {
		t.Fatal(err)
	}
	f := n.Want.(*managedfile.File)
	if n.Address.Name != "nodeupscript-nodes" || !strings.HasSuffix(f.Key, "/igconfig/node/nodes/nodeupscript.sh") || !slices.Equal(n.After, keysets) {
		t.Fatalf("%+v", n)
	}
	if text, _ := f.Content.Value().Known(); text != script(t, in, g, resource.Value{}) {
		t.Error("it is another script")
	}
}

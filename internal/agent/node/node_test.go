package node_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/agent/node"
	"kops.local/kops/internal/assets"
	"kops.local/kops/internal/host"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/pki"
	"kops.local/kops/internal/resource"
)

func ptr[T any](v T) *T { return &v }

// input is a worker with little to do.
func input() node.Input {
	return node.Input{
		Config: &model.NodeupConfig{ClusterName: "c.example.com", KubernetesVersion: "1.36.0", CAs: map[string]string{pki.KubernetesCA: "ca"}, UpdatePolicy: api.UpdateExternal},
		Boot:   &model.BootConfig{}, Host: node.Host{Distro: "debian", Release: "13", Like: "debian", Arch: "amd64", NodeName: "n"},
	}
}

// texts are the contents of files, units and sysctls by their names, and the resources by address.
func texts(t *testing.T, in node.Input) (map[string]string, map[string]resource.Node) {
	t.Helper()
	g, err := node.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	contents, nodes := map[string]string{}, map[string]resource.Node{}
	for n := range g.All() {
		nodes[n.Address.String()] = n
		var c resource.Content
		switch x := n.Want.(type) {
		case *host.File:
			c = x.Content
		case *host.Unit:
			c = x.Content
		case *host.SysctlFile:
			c = x.Content
		}
		if s, _ := c.Value().Known(); s != "" {
			contents[n.Name] = s
		}
	}
	return contents, nodes
}

func TestWhatFollowsFromTheConfiguration(t *testing.T) {
	const config = "/etc/containerd/config.toml"
	for _, c := range []struct {
		name   string
		change func(*node.Input)
		file   string
		has    []string
		hasNot []string
	}{
		{"containerd 2.0", func(in *node.Input) { in.Config.ContainerdConfig = &api.ContainerdConfig{Version: ptr("2.0.1")} }, config,
			[]string{"version = 3\n", `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]` + "\nSystemdCgroup = true"}, nil},
		{"containerd of the image, 1.6", func(in *node.Input) {
			in.Host.Containerd = "1.6.20~ds1"
			in.Config.ContainerdConfig = &api.ContainerdConfig{SkipInstall: true, SandboxImage: ptr("pause")}
		}, config, []string{"version = 2\n", "[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"pause\""}, []string{"cri.v1"}},
		{"additions", func(in *node.Input) {
			in.Config.ContainerdConfig = &api.ContainerdConfig{ConfigAdditions: map[string]intstr.IntOrString{
				`plugins."io.x.y".flag`: intstr.FromString("true"), `plugins."io.x.y".size`: intstr.FromInt32(3), "oom": intstr.FromString("a\"b")}}
		}, config, []string{"oom = \"a\\\"b\"", "[plugins.\"io.x.y\"]\nflag = true\nsize = 3"}, nil},
		{"a configuration of the user's", func(in *node.Input) {
			in.Config.ContainerdConfig = &api.ContainerdConfig{ConfigOverride: ptr("mine"), RegistryMirrors: map[string][]string{"*": {"http://x"}}}
		}, config, []string{"mine"}, []string{"plugins"}},
		{"mirrors", func(in *node.Input) {
			in.Config.ContainerdConfig = &api.ContainerdConfig{RegistryMirrors: map[string][]string{"docker.io": {"http://x", "http://y"}}}
		}, "/etc/containerd/certs.d/docker.io/hosts.toml",
			[]string{"server = \"https://registry-1.docker.io\"", "[host.\"http://x\"]\n  capabilities = [\"pull\", \"resolve\"]\n[host.\"http://y\"]"}, nil},
		{"gVisor and NRI", func(in *node.Input) {
			in.Config.GVisor = &api.GVisorConfig{Enabled: ptr(true)}
			in.Config.ContainerdConfig = &api.ContainerdConfig{NRI: &api.NRIConfig{Enabled: ptr(true), PluginRequestTimeout: &metav1.Duration{Duration: time.Second}}}
		}, config, []string{"runtime_type = \"io.containerd.runsc.v1\"", "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\nplugin_request_timeout = \"1s\""}, nil},
		{"a file of the user's", func(in *node.Input) {
			in.Config.FileAssets = []api.FileAssetSpec{{Name: "x", Content: base64.RawStdEncoding.EncodeToString([]byte("hello")), IsBase64: true}, {Path: "/srv/kubernetes/assets/x", Content: "the cluster's"}}
		}, "/srv/kubernetes/assets/x", []string{"hello"}, nil},
		{"a hook", func(in *node.Input) {
			in.Config.Hooks[1] = []api.HookSpec{{Manifest: "Type=oneshot\nExecStart=/bin/true", Before: []string{"kubelet.service"}}}
		}, "kops-hook-0.service", []string{"Before=kubelet.service", "[Service]\nType=oneshot\nExecStart=/bin/true"}, nil},
		{"a hook with a container", func(in *node.Input) {
			in.Config.Hooks[0] = []api.HookSpec{{Name: "h", ExecContainer: &api.ExecContainerAction{Image: "i", Command: []string{"sh", "-c", "echo $HOME"}, Environment: map[string]string{"A": "1"}}}}
		}, "h.service", []string{"--net-host --privileged --env \"A=1\" i h \"sh\" \"-c\" \"echo $$HOME\"", "After=containerd.service"}, nil},
		{"kernel parameters", func(in *node.Input) {
			in.Boot.CloudProvider, in.Config.ServiceNodePortRange, in.Config.SysctlParameters = "aws", "1-2", []string{"# mine", "x.y=1"}
		}, "/etc/sysctl.d/99-k8s-general.conf", []string{"net.ipv4.ip_local_reserved_ports=1-2\n", "net.ipv4.neigh.default.gc_thresh1=0\nnet.ipv4.ip_forward=1\n# mine\nx.y=1\n", "kernel.panic=10"}, nil},
		{"kernel parameters of a container", func(in *node.Input) { in.Host.Contained = true }, "/etc/sysctl.d/99-k8s-general.conf", []string{"net.ipv4.ip_forward=1"}, []string{"kernel.", "vm."}},
		{"time on AWS", func(in *node.Input) { in.Boot.CloudProvider = "aws" }, "/etc/chrony/chrony.conf", []string{"pool 169.254.169.123 prefer iburst\n"}, nil},
		{"pods with addresses of the cloud", func(in *node.Input) { in.Host.MaxPods = 58 }, "/var/lib/kubelet/kubelet.conf", []string{"maxPods: 58\n"}, nil},
		{"eviction", func(in *node.Input) {
			in.Config.KubeletConfig = &api.KubeletConfigSpec{EvictionHard: ptr("a<1%,b<2"), EvictionSoftGracePeriod: "a=1m", EventQPS: ptr(int32(7))}
		}, "/var/lib/kubelet/kubelet.conf", []string{"evictionHard:\n  a: 1%\n  b: \"2\"\n", "evictionSoftGracePeriod:\n  a: 1m\n", "eventRecordQPS: 7\n"}, nil},
		{"a machine that shares its kernel", func(in *node.Input) { in.Host.Contained = true }, "/var/lib/kubelet/kubelet.conf",
			[]string{"failSwapOn: false\n", "oomScoreAdj: 0\n", "protectKernelDefaults: false\n"}, nil},
		{"a disk that is the host's", func(in *node.Input) { in.Host.Contained = true }, config, []string{"discard_unpacked_layers = true\n", "restrict_oom_score_adj = true\n"}, nil},
		{"old control groups", func(in *node.Input) { in.Host.CgroupV1 = true }, "/var/lib/kubelet/kubelet.conf", []string{"failCgroupV1: false\n"}, nil},
		{"a name of the cloud's", func(in *node.Input) {
			in.Host.OverrideName = true
			in.Config.KubeletConfig = &api.KubeletConfigSpec{HostnameOverride: "@aws", LogLevel: ptr(int32(2))}
		}, "/etc/sysconfig/kubelet", []string{"--hostname-override=n ", "--v=2"}, []string{"@aws"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input()
			c.change(&in)
			all, _ := texts(t, in)
			got, ok := all[c.file]
			if !ok {
				t.Fatalf("there is no %s", c.file)
			}
			for _, s := range c.has {
				if !strings.Contains(got, s) {
					t.Errorf("%q is not in\n%s", s, got)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(got, s) {
					t.Errorf("%q is in\n%s", s, got)
				}
			}
		})
	}
}

func TestAMachineThatIsWarmed(t *testing.T) {
	in := input()
	in.Config.WarmPoolImages = []string{"b", "a"}
	if _, nodes := texts(t, in); nodes["host_image/a"].Want != nil {
		t.Error("a machine in service pulls images ahead")
	}
	in.Host.Warming = true
	_, nodes := texts(t, in)
	u, ok := nodes["host_unit/kubelet.service"].Want.(*host.Unit)
	if !ok || u.On || nodes["host_image/a"].Want == nil || nodes["host_image/b"].Want == nil {
		t.Errorf("the kubelet is %+v", u)
	}
}

func TestAHookThatIsSwitchedOff(t *testing.T) {
	in := input()
	in.Config.Hooks = [2][]api.HookSpec{{{Name: "h", Enabled: ptr(false)}}, {{Name: "h.service", Manifest: "x"}}}
	_, nodes := texts(t, in)
	if u, ok := nodes["host_unit/h.service"].Want.(*host.Unit); !ok || u.On || !u.Content.Value().IsZero() {
		t.Errorf("the hook is %+v", u)
	}
}

func TestWhatCannotBeModelled(t *testing.T) {
	for _, c := range []struct {
		change func(*node.Input)
		want   string
	}{
		{func(in *node.Input) { in.Config.CAs = nil }, "model the machine's trust: the configuration has no certificates of kubernetes-ca"},
		{func(in *node.Input) { in.Config.KubeletConfig = &api.KubeletConfigSpec{EvictionSoft: "a=1"} }, `model the machine's kubelet: kubelet.evictionSoft: "a=1" is not of the form signal<value`},
		{func(in *node.Input) {
			in.Config.FileAssets = []api.FileAssetSpec{{Name: "x", Content: "%", IsBase64: true}}
		}, "model the machine's files and hooks: the file /srv/kubernetes/assets/x is not base64: illegal base64 data at input byte 0"},
		{func(in *node.Input) { in.Config.APIServerConfig = &model.APIServerConfig{} }, "model the machine's API server: the configuration says nothing of the API server"},
		{func(in *node.Input) {
			in.Config.ContainerdConfig = &api.ContainerdConfig{ConfigAdditions: map[string]intstr.IntOrString{"version.x": intstr.FromInt32(1)}}
		}, "model the machine's containerd: configAdditions: version is a value, and cannot hold others"},
	} {
		in := input()
		c.change(&in)
		if _, err := node.Build(in); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// certificateNames are the names in each server's certificate, by its path.
func certificateNames(t *testing.T, in node.Input) map[string][]string {
	t.Helper()
	_, nodes := texts(t, in)
	out := map[string][]string{}
	for _, n := range nodes {
		if c, ok := n.Want.(*host.Certificate); ok && c.Usage == string(pki.Server) {
			out[c.Path] = c.Names
		}
	}
	return out
}

func TestEveryAddressOfTheAPIIsInItsCertificate(t *testing.T) {
	in := input()
	keysets, _, err := pki.Ensure(nil, []string{pki.KubernetesCA, pki.AggregatorCA, pki.EtcdClientsCA, pki.ServiceAccount}, pki.Issuer{Rand: rand.Reader, Now: time.Now,
		Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }})
	if err != nil {
		t.Fatal(err)
	}
	in.Keysets = keysets
	for n, k := range keysets {
		in.Config.CAs[n] = k.Bundle()
	}
	in.Config.APIServerConfig = &model.APIServerConfig{KubeAPIServer: &api.KubeAPIServerConfig{}, ClusterDNSDomain: "cluster.local"}
	in.Config.APIServerConfig.API.PublicName = "api.c.example.com"
	in.Config.APIServerConfig.API.AdditionalSANs = []string{"10.77.0.1", "api.example.com"}
	in.Config.ControlPlaneConfig = &model.ControlPlaneConfig{}
	in.Config.Networking.ServiceClusterIPRange = "100.64.0.0/13,fd00:5::/108"
	in.Boot.APIServerIPs = []string{"10.77.0.3"}
	names := certificateNames(t, in)
	for path, want := range map[string][]string{
		"/srv/kubernetes/kube-apiserver/server.crt": {"10.77.0.1", "api.example.com", "10.77.0.3", "api.internal.c.example.com", "api.c.example.com", "127.0.0.1", "100.64.0.1", "fd00:5::1",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		"/etc/kubernetes/kops-controller/kops-controller.crt": {"kops-controller.internal.c.example.com", "10.77.0.3"},
	} {
		got := slices.Clone(names[path])
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has  %v\nwant %v", path, got, want)
		}
	}
}

// Pods on the machine's network get a copy of its names when they start.
func TestTheKubeletFollowsTheNames(t *testing.T) {
	in := input()
	in.Config.UsesNoneDNS, in.Boot.APIServerIPs = true, []string{"10.77.0.1"}
	_, nodes := texts(t, in)
	after := nodes["host_unit/kubelet.service"].After
	if !slices.Contains(after, resource.Address{Kind: host.Blocks.Name, Name: "hosts"}) {
		t.Errorf("the kubelet follows %v", after)
	}
	b, ok := nodes["host_block/hosts"].Want.(*host.Block)
	if !ok || strings.Join(b.Lines, "\n") != "10.77.0.1 api.internal.c.example.com kops-controller.internal.c.example.com" {
		t.Errorf("the names are %+v", b)
	}
}

// Containerd starts while the kubelet is still fetched.
func TestContainerdWaitsForItsOwnProgramsOnly(t *testing.T) {
	in := input()
	sum := strings.Repeat("a", 64)
	in.Config.Assets = map[assets.Arch][]string{"amd64": {sum + "@http://x/kubelet", sum + "@http://x/runc.amd64", sum + "@http://x/containerd-2.3.4-linux-amd64.tar.gz", sum + "@http://x/ours.tar.gz", sum + "@http://x/cni-plugins-linux-amd64-v1.9.1.tgz"}}
	_, nodes := texts(t, in)
	programs := func(unit string) (out []string) {
		for _, a := range nodes["host_unit/"+unit].After {
			if a.Kind == host.Binaries.Name || a.Kind == host.Archives.Name {
				out = append(out, a.Name)
			}
		}
		return out
	}
	if got := strings.Join(programs("containerd.service"), " "); got != "/usr/sbin/runc containerd-2.3.4-linux-amd64.tar.gz ours.tar.gz" {
		t.Errorf("containerd waits for %s", got)
	}
	if got := programs("kubelet.service"); len(got) != 5 {
		t.Errorf("the kubelet waits for %v", got)
	}
}

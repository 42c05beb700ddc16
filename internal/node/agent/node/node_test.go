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

	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
)

func ptr[T any](v T) *T { return &v }

// traits returns the traits of a platform's machines.
func traits(platform string) onmachine.Traits {
	p, _ := onmachine.Find(nodes.All(), platform)
	return p.Traits
}

// input returns a minimal worker.
func input() node.Input {
	return node.Input{
		Config: &nodeconfig.Config{ClusterName: "c.example.com", KubernetesVersion: "1.36.0", CAs: map[string]string{pki.KubernetesCA: "ca"}, UpdatePolicy: api.UpdateExternal},
		Boot:   &nodeconfig.Boot{}, Host: node.Host{Distro: "debian", Release: "13", Like: "debian", Arch: "amd64", NodeName: "n"},
	}
}

// texts returns the contents of files, units and sysctls by name, and the resources by address.
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
		s, _ := c.Value().Resolve(func(a resource.Address, attr string) (string, bool) { return "(" + attr + " of " + a.Name + ")", true }).Known()
		if s != "" {
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
			in.Host.Traits, in.Config.ServiceNodePortRange, in.Config.SysctlParameters = traits("aws"), "1-2", []string{"# mine", "x.y=1"}
		}, "/etc/sysctl.d/99-k8s-general.conf", []string{"net.ipv4.ip_local_reserved_ports=1-2\n", "net.ipv4.neigh.default.gc_thresh1=0\nnet.ipv4.ip_forward=1\n# mine\nx.y=1\n", "kernel.panic=10"}, nil},
		{"kernel parameters of a container", func(in *node.Input) { in.Host.Contained = true }, "/etc/sysctl.d/99-k8s-general.conf", []string{"net.ipv4.ip_forward=1"}, []string{"kernel.", "vm."}},
		{"time on AWS", func(in *node.Input) { in.Host.Traits = traits("aws") }, "/etc/chrony/chrony.conf", []string{"pool 169.254.169.123 prefer iburst\n"}, nil},
		{"pods with addresses of the cloud", func(in *node.Input) { in.Host.MaxPods = 58 }, "/var/lib/kubelet/kubelet.conf", []string{"maxPods: 58\n"}, nil},
		{"eviction", func(in *node.Input) {
			in.Config.KubeletConfig = &api.KubeletConfigSpec{EvictionHard: ptr("a<1%,b<2"), EvictionSoftGracePeriod: "a=1m", EventQPS: ptr(int32(7))}
		}, "/var/lib/kubelet/kubelet.conf", []string{"evictionHard:\n  a: 1%\n  b: \"2\"\n", "evictionSoftGracePeriod:\n  a: 1m\n", "eventRecordQPS: 7\n"}, nil},
		{"a machine that shares its kernel", func(in *node.Input) { in.Host.Contained = true }, "/var/lib/kubelet/kubelet.conf",
			[]string{"failSwapOn: false\n", "oomScoreAdj: 0\n", "protectKernelDefaults: false\n"}, nil},
		{"a disk that is the host's", func(in *node.Input) { in.Host.Contained = true }, config, []string{"discard_unpacked_layers = true\n", "restrict_oom_score_adj = true\n"}, nil},
		{"old control groups", func(in *node.Input) { in.Host.CgroupV1 = true }, "/var/lib/kubelet/kubelet.conf", []string{"failCgroupV1: false\n"}, nil},
		{"settings that are flags", func(in *node.Input) {
			in.Config.KubeletConfig = &api.KubeletConfigSpec{HousekeepingInterval: &metav1.Duration{Duration: 20 * time.Second}}
		}, "/etc/sysconfig/kubelet", []string{"--housekeeping-interval=20s "}, []string{"--node-ip"}},
		{"notes of the kernel", func(in *node.Input) {
			in.Config.KubeletConfig = &api.KubeletConfigSpec{KernelMemcgNotification: ptr(true)}
		}, "/var/lib/kubelet/kubelet.conf", []string{"kernelMemcgNotification: true\n"}, nil},
		{"an address among those of pods", func(in *node.Input) {
			in.Host.Address, in.Config.Networking.AmazonVPC = "10.0.0.9", &api.AmazonVPCNetworkingSpec{}
		}, "/etc/sysconfig/kubelet", []string{"--node-ip=10.0.0.9 "}, nil},
		{"an address among those of another network's pods", func(in *node.Input) {
			in.Host.Address, in.Config.Networking.CNI = "10.0.0.9", &api.CNINetworkingSpec{UsesSecondaryIP: true}
		}, "/etc/sysconfig/kubelet", []string{"--node-ip=10.0.0.9 "}, nil},
		{"addresses of IPv6", func(in *node.Input) {
			in.Host.Address, in.Config.Networking.AmazonVPC, in.Config.Networking.NonMasqueradeCIDR = "10.0.0.9", &api.AmazonVPCNetworkingSpec{}, "::/0"
		}, "/etc/sysconfig/kubelet", []string{"--node-ip=:: "}, nil},
		{"routers of IPv6", func(in *node.Input) {
			in.Host.Release, in.Config.Networking.NonMasqueradeCIDR = "11", "::/0"
		}, "/etc/sysctl.d/99-k8s-general.conf", []string{"net.ipv6.conf.all.forwarding=1\nnet.ipv6.conf.ens*.accept_ra=2\n"}, []string{"ipv4.ip_forward"}},
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

func TestAWarmPoolMachine(t *testing.T) {
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

// Systemd orders only units that it starts in one transaction; on the first start nodeup starts them one
// by one.
func TestHooksThatComeFirst(t *testing.T) {
	in := input()
	in.Config.Hooks = [2][]api.HookSpec{{{Name: "disk", Manifest: "Type=oneshot", Before: []string{"containerd.service", "kubelet"}}, {Name: "login", Manifest: "Type=oneshot", Before: []string{"kubelet.service"}}},
		{{Name: "last", Manifest: "Type=oneshot"}}}
	_, nodes := texts(t, in)
	follows := func(unit, hook string) bool {
		return slices.Contains(nodes["host_unit/"+unit].After, resource.Address{Kind: host.Units.Name, Name: hook})
	}
	for _, c := range []struct {
		unit, hook string
		want       bool
	}{
		{"containerd.service", "disk.service", true}, {"kubelet.service", "disk.service", true}, {"disk.service", "containerd.service", false},
		{"kubelet.service", "login.service", true}, {"login.service", "containerd.service", true}, {"kubelet.service", "last.service", false}, {"last.service", "containerd.service", true},
	} {
		if got := follows(c.unit, c.hook); got != c.want {
			t.Errorf("%s follows %s: %t", c.unit, c.hook, got)
		}
	}
}

// A hook may run one of the user's files, or a program from a package.
func TestHooksFollowWhatTheyRun(t *testing.T) {
	in := input()
	in.Config.FileAssets = []api.FileAssetSpec{{Name: "setup", Path: "/opt/setup.sh", Mode: "0755", Content: "#!/bin/sh"}}
	in.Config.Hooks[0] = []api.HookSpec{{Name: "early", Manifest: "ExecStart=/opt/setup.sh", Before: []string{"containerd.service"}}, {Name: "late", Manifest: "ExecStart=/opt/setup.sh"}}
	_, nodes := texts(t, in)
	for _, hook := range []string{"early", "late"} {
		for _, a := range []resource.Address{{Kind: host.Files.Name, Name: "/opt/setup.sh"}, {Kind: host.PackageSets.Name, Name: "packages"}} {
			if !slices.Contains(nodes["host_unit/"+hook+".service"].After, a) {
				t.Errorf("the hook %s does not follow %s", hook, a)
			}
		}
	}
}

// The files of containerd and the kubelet must be on the volume meant for them.
func TestEverythingFollowsFileSystems(t *testing.T) {
	in := input()
	in.Config.VolumeMounts = []api.VolumeMountSpec{{Device: "/dev/xvdb", Filesystem: "btfs", Path: "/var/lib/containerd/", MountOptions: []string{"noatime"}}, {Device: "/dev/xvdc", Filesystem: "ext4", Path: "/var/lib/containerd/my logs"}}
	all, nodes := texts(t, in)
	for _, unit := range []string{"containerd.service", "kubelet.service"} {
		if want := `RequiresMountsFor="/var/lib/containerd" "/var/lib/containerd/my logs"`; !strings.Contains(all[unit], want+"\n\n[Service]") {
			t.Errorf("after a new start of the machine %s may write below a file system:\n%s", unit, all[unit])
		}
	}
	outer := resource.Address{Kind: host.Mounts.Name, Name: "/var/lib/containerd"}
	for _, n := range nodes {
		if got := slices.Contains(n.After, outer); got == (n.Address == outer || n.Address.Kind == host.PackageSets.Name) {
			t.Errorf("%s follows the file system: %t", n.Address, got)
		}
	}
	if p, ok := nodes["host_packages/packages"].Want.(*host.PackageSet); !ok || !strings.Contains(p.Names, "btrfs-progs") || !strings.Contains(p.Names, "e2fsprogs") {
		t.Errorf("nothing makes the file systems: %+v", p)
	}
	m, ok := nodes[outer.String()].Want.(*host.Mount)
	if !ok || m.Path != outer.Name || m.Filesystem != "btrfs" {
		t.Errorf("the file system is %+v", m)
	}
	if unit, _ := m.Unit.Value().Known(); !strings.Contains(unit, "Where=/var/lib/containerd\nType=btrfs\nOptions=noatime\n") {
		t.Errorf("its unit is\n%s", unit)
	}
	if packages := (resource.Address{Kind: host.PackageSets.Name, Name: "packages"}); !slices.Contains(nodes[outer.String()].After, packages) {
		t.Error("a file system may need a program of a package")
	}
}

// A node that is ready gets no more certificates.
func TestTheKubeletIsLast(t *testing.T) {
	in := input()
	in.Config.KubeProxy, in.Config.Networking.KubeRouter = &api.KubeProxyConfig{Image: "i"}, &api.KuberouterNetworkingSpec{}
	_, nodes := texts(t, in)
	after := nodes["host_unit/kubelet.service"].After
	for _, n := range nodes {
		if kind := n.Address.Kind; (kind == host.Certificates.Name || kind == host.Files.Name) && !slices.Contains(after, n.Address) {
			t.Errorf("the kubelet does not wait for %s", n.Address)
		}
	}
	if !slices.Contains(after, resource.Address{Kind: host.Certificates.Name, Name: "/var/lib/kube-proxy/kubeconfig"}) {
		t.Errorf("the kubelet follows %v", after)
	}
}

func TestAHookThatIsSwitchedOff(t *testing.T) {
	in := input()
	in.Config.Hooks = [2][]api.HookSpec{{{Name: "h", Enabled: ptr(false)}}, {{Name: "h.service", Manifest: "x"}}}
	_, nodes := texts(t, in)
	if u, ok := nodes["host_unit/h.service"].Want.(*host.Unit); !ok || u.On || !u.Off || !u.Content.Value().IsZero() {
		t.Errorf("the hook is %+v", u)
	}
}

func TestInvalidConfigurations(t *testing.T) {
	for _, c := range []struct {
		change func(*node.Input)
		want   string
	}{
		{func(in *node.Input) { in.Config.CAs = nil }, "model the machine's trust: the configuration has no certificates of kubernetes-ca"},
		{func(in *node.Input) { in.Config.KubeletConfig = &api.KubeletConfigSpec{EvictionSoft: "a=1"} }, `model the machine's kubelet: kubelet.evictionSoft: "a=1" is not of the form signal<value`},
		{func(in *node.Input) {
			in.Config.FileAssets = []api.FileAssetSpec{{Name: "x", Content: "%", IsBase64: true}}
		}, "model the machine's files and hooks: the file /srv/kubernetes/assets/x is not base64: illegal base64 data at input byte 0"},
		{func(in *node.Input) {
			in.Config.FileAssets = []api.FileAssetSpec{{Name: "x", Content: "y", Mode: "rw-r--r--"}}
		}, `model the machine's files and hooks: the file /srv/kubernetes/assets/x: the mode "rw-r--r--" is not an octal number such as 0644`},
		{func(in *node.Input) { in.Config.VolumeMounts = []api.VolumeMountSpec{{Path: "data"}} }, `model the machine's file systems: volumeMounts: the path "data" does not begin with /`},
		{func(in *node.Input) { in.Config.APIServerConfig = &nodeconfig.APIServer{} }, "model the machine's API server: the configuration does not configure the API server"},
		{func(in *node.Input) {
			in.Config.ContainerdConfig = &api.ContainerdConfig{ConfigAdditions: map[string]intstr.IntOrString{"version.x": intstr.FromInt32(1)}}
		}, "model the machine's containerd: configAdditions: version is a value, so it cannot contain other keys"},
	} {
		in := input()
		c.change(&in)
		if _, err := node.Build(in); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// certificateNames returns the names in each server certificate, by path.
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

// controlPlane returns the input of a control-plane machine.
func controlPlane(t *testing.T) node.Input {
	t.Helper()
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
	in.Config.APIServerConfig = &nodeconfig.APIServer{KubeAPIServer: &api.KubeAPIServerConfig{}, ClusterDNSDomain: "cluster.local"}
	in.Config.ControlPlaneConfig = &nodeconfig.ControlPlane{}
	in.Config.Networking.ServiceClusterIPRange = "100.64.0.0/13,fd00:5::/108"
	return in
}

func TestEveryAddressOfTheAPIIsInItsCertificate(t *testing.T) {
	in := controlPlane(t)
	in.Config.APIServerConfig.API.PublicName = "api.c.example.com"
	in.Config.APIServerConfig.API.AdditionalSANs = []string{"10.77.0.1", "api.example.com"}
	in.Config.APIServerAdditionalIPs = []string{"api-1.elb.example.com"}
	in.Boot.APIServerIPs = []string{"10.77.0.3"}
	in.Host.Admin = node.Account{Home: "/home/ubuntu", ID: 1000}
	_, nodes := texts(t, in)
	if d, ok := nodes["host_directory//home/ubuntu/.kube"].Want.(*host.Directory); !ok || d.Owner != 1000 || d.Group != 1000 {
		t.Errorf("the folder of the user's kubeconfig is %+v", d)
	}
	names := certificateNames(t, in)
	for path, want := range map[string][]string{
		"/srv/kubernetes/kube-apiserver/server.crt": {"10.77.0.1", "api.example.com", "api-1.elb.example.com", "10.77.0.3", "api.internal.c.example.com", "api.c.example.com", "127.0.0.1", "100.64.0.1", "fd00:5::1",
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

// While authorities are rotated, a machine trusts two.
func TestTheControllerManagerSignsWithOneAuthorityOfTwo(t *testing.T) {
	in := controlPlane(t)
	own := in.Config.CAs[pki.KubernetesCA]
	in.Config.CAs[pki.KubernetesCA] = controlPlane(t).Config.CAs[pki.KubernetesCA] + own
	contents, _ := texts(t, in)
	if contents["/srv/kubernetes/kube-controller-manager/ca.crt"] != own {
		t.Error("the certificate is not that of the signing key alone")
	}
	for _, file := range []string{"/srv/kubernetes/ca.crt", "/etc/kubernetes/kops-controller/kubernetes-ca.crt"} {
		if contents[file] != in.Config.CAs[pki.KubernetesCA] {
			t.Errorf("%s does not hold both", file)
		}
	}
}

func TestTheAPIServerKnowsTheIssuerOfUsers(t *testing.T) {
	in := controlPlane(t)
	in.Config.APIServerConfig.Authentication = &api.AuthenticationSpec{OIDC: &api.OIDCAuthenticationSpec{
		IssuerURL: ptr("https://id.example.com"), ClientID: ptr("kubernetes"), UsernameClaim: ptr("email"), UsernamePrefix: ptr("oidc:"),
		GroupsClaims: []string{"groups"}, GroupsPrefix: ptr("oidc:"), RequiredClaims: map[string]string{"hd": "example.com", "aud": "kubernetes"}}}
	contents, _ := texts(t, in)
	manifest := contents["/etc/kubernetes/manifests/kube-apiserver.manifest"]
	for _, flag := range []string{"issuer-url=https://id.example.com", "client-id=kubernetes", "username-claim=email", "username-prefix=oidc:",
		"groups-claim=groups", "groups-prefix=oidc:", "required-claim=aud=kubernetes", "required-claim=hd=example.com"} {
		if strings.Count(manifest, "--oidc-"+flag) != 1 {
			t.Errorf("the manifest lacks --oidc-%s:\n%s", flag, manifest)
		}
	}
}

// On this host, the load balancer learns within a second that etcd stalls; elsewhere
// the flags are kOps'.
func TestTheControlPlaneUsesTheEgressProxy(t *testing.T) {
	in := controlPlane(t)
	in.Config.Networking.EgressProxy = &api.EgressProxySpec{HTTPProxy: api.HTTPProxy{Host: "proxy.example.com", Port: 3128}}
	contents, _ := texts(t, in)
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if !strings.Contains(contents["/etc/kubernetes/manifests/"+name+".manifest"], "value: http://proxy.example.com:3128") {
			t.Errorf("%s does not know the proxy", name)
		}
	}
}

// The kubelet rejects a request above its limit.
func TestALimitBelowTheUsualRequestIsTheRequest(t *testing.T) {
	for limit, want := range map[string]string{"50m": "cpu: 50m", "1": "cpu: 100m"} {
		in := controlPlane(t)
		if in.Config.ControlPlaneConfig.KubeScheduler == nil {
			in.Config.ControlPlaneConfig.KubeScheduler = &api.KubeSchedulerConfig{}
		}
		in.Config.ControlPlaneConfig.KubeScheduler.CPULimit = ptr(quantity.MustParse(limit))
		contents, _ := texts(t, in)
		if text := contents["/etc/kubernetes/manifests/kube-scheduler.manifest"]; !strings.Contains(text, "requests:\n        "+want) {
			t.Errorf("with the limit %s:\n%s", limit, text)
		}
	}
}

func TestALocalAPIServerReportsAStalledEtcdSoon(t *testing.T) {
	for cloud, want := range map[string]bool{"local": true, "aws": false} {
		in := controlPlane(t)
		in.Host.Traits = traits(cloud)
		contents, _ := texts(t, in)
		if got := strings.Contains(contents["/etc/kubernetes/manifests/kube-apiserver.manifest"], "--etcd-readycheck-timeout=400ms"); got != want {
			t.Errorf("on %s the API server has the flag: %t", cloud, got)
		}
	}
}

// A machine with an API server but without etcd finds each etcd cluster by name.
func TestAnAPIServerWithoutEtcdUsesTheOthers(t *testing.T) {
	in := controlPlane(t)
	in.Config.ControlPlaneConfig = nil
	in.Config.APIServerConfig.KubeAPIServer = &api.KubeAPIServerConfig{EtcdServers: []string{"https://127.0.0.1:4001"},
		EtcdServersOverrides: []string{"/events#https://127.0.0.1:4002", "coordination.k8s.io/leases#https://127.0.0.1:4004"}}
	contents, _ := texts(t, in)
	manifest := contents["/etc/kubernetes/manifests/kube-apiserver.manifest"]
	for _, flag := range []string{"--etcd-servers=https://main.etcd.internal.c.example.com:4001",
		"--etcd-servers-overrides=/events#https://events.etcd.internal.c.example.com:4002,coordination.k8s.io/leases#https://leases.etcd.internal.c.example.com:4004"} {
		if !strings.Contains(manifest, flag) {
			t.Errorf("the manifest lacks %s:\n%s", flag, manifest)
		}
	}
}

func TestAnAPIServerOnItsOwnFindsEtcdWhereNoNameIsPublished(t *testing.T) {
	in := controlPlane(t)
	in.Config.ControlPlaneConfig, in.Config.UsesNoneDNS, in.Boot.EtcdIPs = nil, true, []string{"10.9.0.7"}
	_, nodes := texts(t, in)
	b, ok := nodes["host_block/hosts"].Want.(*host.Block)
	if !ok || b.Lines[len(b.Lines)-1] != "10.9.0.7 main.etcd.internal.c.example.com events.etcd.internal.c.example.com leases.etcd.internal.c.example.com" {
		t.Errorf("the names are %+v", b)
	}
}

// The API's internal name resolves to the load balancer if one serves it and the name is published,
// otherwise to the API servers.
func TestTheInternalNameOfTheAPILeadsSomewhere(t *testing.T) {
	const published = "dns.alpha.kubernetes.io/internal: api.internal.c.example.com"
	for _, c := range []struct{ balanced, unnamed, want bool }{{false, false, true}, {true, false, false}, {true, true, true}} {
		in := controlPlane(t)
		in.Host.Traits.BalancerUnnamed = c.unnamed
		if c.balanced {
			in.Config.APIServerConfig.API.LoadBalancer = &api.LoadBalancerAccessSpec{UseForInternalAPI: true}
		}
		contents, _ := texts(t, in)
		if got := strings.Contains(contents["/etc/kubernetes/manifests/kube-apiserver.manifest"], published); got != c.want {
			t.Errorf("%+v: published %t", c, got)
		}
	}
}

// Pods on the host network get a copy of the machine's hosts file when they start.
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

// If the boot configuration names a load balancer, its addresses serve the API.
func TestTheAPIBehindABalancer(t *testing.T) {
	in := input()
	in.Config.UsesNoneDNS, in.Host.APIAddresses = true, []string{"10.9.0.1", "10.9.0.2"}
	_, nodes := texts(t, in)
	b, ok := nodes["host_block/hosts"].Want.(*host.Block)
	if !ok || len(b.Lines) != 2 || b.Lines[1] != "10.9.0.2 api.internal.c.example.com kops-controller.internal.c.example.com" {
		t.Errorf("the names are %+v", b)
	}
}

func TestDistributionsThatManageInterfacesOfPods(t *testing.T) {
	const (
		foreign = "/usr/lib/systemd/networkd.conf.d/40-disable-manage-foreign-routes.conf"
		link    = "/etc/systemd/network/99-default.link"
		second  = "/etc/systemd/network/75-eni-secondary.network"
		hotplug = "/etc/cloud/cloud.cfg.d/99-disable-network-hotplug.cfg"
		policy  = "/etc/udev/rules.d/99-vpc-policy-routes.rules"
		updown  = "/etc/udev/rules.d/75-cloud-ifupdown.rules"
		reload  = "kops-networkd.service"
		groups  = "run-cilium-cgroupv2.mount"
	)
	vpc, cilium := api.NetworkingSpec{AmazonVPC: &api.AmazonVPCNetworkingSpec{}}, api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{}}
	eni := api.NetworkingSpec{Cilium: &api.CiliumNetworkingSpec{IPAM: "eni"}}
	for _, c := range []struct {
		distro, release, like string
		network               api.NetworkingSpec
		want                  []string
	}{
		{"ubuntu", "22.04", "debian", vpc, []string{foreign, link, reload}},
		{"ubuntu", "24.04", "debian", vpc, []string{foreign, link, hotplug, reload}},
		{"debian", "11", "debian", vpc, []string{updown}},
		{"debian", "12", "debian", eni, []string{foreign, link, second, hotplug, reload, groups}},
		{"amzn", "2023", "rhel", vpc, []string{foreign, link, second, policy, reload}},
		{"ubuntu", "24.04", "debian", cilium, []string{foreign, reload, groups}},
		{"ubuntu", "20.04", "debian", cilium, []string{groups}},
		{"ubuntu", "24.04", "debian", api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{}}, nil},
	} {
		in := input()
		in.Host.Distro, in.Host.Release, in.Host.Like, in.Host.Interface, in.Config.Networking = c.distro, c.release, c.like, "ens5", c.network
		all, nodes := texts(t, in)
		for _, name := range []string{foreign, link, second, hotplug, policy, updown, reload, groups} {
			if got := all[name] != ""; got != slices.Contains(c.want, name) {
				t.Errorf("%s %s: %s is there: %t", c.distro, c.release, name, got)
			}
		}
		if slices.Contains(c.want, second) && !strings.Contains(all[second], "Name=!ens5\n") {
			t.Errorf("the first interface would not be managed:\n%s", all[second])
		}
		for _, unit := range []string{reload, groups} {
			if slices.Contains(c.want, unit) && !slices.Contains(nodes["host_unit/kubelet.service"].After, resource.Address{Kind: host.Units.Name, Name: unit}) {
				t.Errorf("the kubelet does not follow %s", unit)
			}
		}
	}
}

// Containerd starts while the kubelet is still being fetched.
func TestContainerdWaitsForItsOwnProgramsOnly(t *testing.T) {
	in := input()
	sum := strings.Repeat("a", 64)
	in.Config.Assets = map[download.Arch][]string{"amd64": {sum + "@http://x/kubelet", sum + "@http://x/runc.amd64", sum + "@http://x/containerd-2.3.4-linux-amd64.tar.gz", sum + "@http://x/ours.tar.gz", sum + "@http://x/cni-plugins-linux-amd64-v1.9.1.tgz"}}
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

package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
)

const (
	kubeletFile    = "/var/lib/kubelet/kubelet.conf"
	containerdFile = "/etc/containerd/config.toml"
	proxyFile      = "/etc/kubernetes/manifests/kube-proxy.manifest"
	sysctlFile     = "/etc/sysctl.d/99-k8s-general.conf"
)

// virtualMachine returns a worker whose configuration was completed for a cloud's virtual machines.
func virtualMachine() node.Input {
	in := input()
	in.Host.Traits, in.Config.UpdatePolicy = traits("aws"), api.UpdateAutomatic
	in.Config.KubeletConfig = &api.KubeletConfigSpec{CgroupDriver: "systemd", CgroupRoot: "/", CloudProvider: "external", ProtectKernelDefaults: ptr(true),
		ShutdownGracePeriod: &metav1.Duration{Duration: 30 * time.Second}, ShutdownGracePeriodCriticalPods: &metav1.Duration{Duration: 10 * time.Second}}
	in.Config.KubeProxy = &api.KubeProxyConfig{Image: "i", ConntrackMin: ptr(int32(9))}
	return in
}

// encodeConfig returns the configuration as it is on a machine's disk.
func encodeConfig(t *testing.T, in node.Input) string {
	t.Helper()
	text, err := yaml.Marshal(in.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConfigurationForVirtualMachinesWorksInAContainer(t *testing.T) {
	lines := func(s ...string) []string { return s }
	container := func(in *node.Input) { in.Host.Contained, in.Host.CgroupV1, in.Host.LacksLogind = true, true, true }
	all := lines("kubelet.cgroupDriver", "kubelet.protectKernelDefaults", "kubelet.failSwapOn", "kubelet.shutdownGracePeriod", "kubeProxy.conntrackMaxPerCore", "ntp.managed", "updatePolicy", "sysctlParameters", "oomScoreAdj")
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(names, s) })
	}
	for _, c := range []struct {
		name        string
		change      func(*node.Input)
		adapted     []string
		has, hasNot map[string][]string
	}{
		{"a virtual machine", func(*node.Input) {}, nil,
			map[string][]string{kubeletFile: lines("cgroupDriver: systemd\n", "protectKernelDefaults: true\n", "shutdownGracePeriod: 30s\n"), containerdFile: lines("SystemdCgroup = true\n"),
				proxyFile:  lines("--conntrack-max-per-core=131072\n", "--conntrack-min=9\n", "--oom-score-adj=-998\n"),
				sysctlFile: lines("kernel.panic=10\n", "gc_thresh1=0\n"), "packages": lines("chrony", "unattended-upgrades"), "/etc/chrony/chrony.conf": lines("169.254.169.123")},
			map[string][]string{kubeletFile: lines("failSwapOn", "oomScoreAdj")}},
		{"a container", container, all,
			map[string][]string{
				kubeletFile: lines("cgroupDriver: cgroupfs\n", "protectKernelDefaults: false\n", "failSwapOn: false\n", "oomScoreAdj: 0\n", "shutdownGracePeriod: 0s\n", "shutdownGracePeriodCriticalPods: 0s\n",
					"failCgroupV1: false\n"),
				containerdFile: lines("SystemdCgroup = false\n", "restrict_oom_score_adj = true\n"),
				proxyFile: lines("--conntrack-max-per-core=0\n", "--conntrack-min=0\n", "--conntrack-tcp-timeout-close-wait=0s\n", "--conntrack-tcp-timeout-established=0s\n",
					"--oom-score-adj=0\n"),
				sysctlFile: lines("net.ipv4.ip_forward=1\n", "net.core.somaxconn=32768\n"), "packages": lines("iptables")},
			map[string][]string{sysctlFile: lines("kernel.", "vm.", "fs.", "gc_thresh", "rmem_max", "wmem_max", "netdev_max_backlog"), "packages": lines("chrony", "unattended-upgrades"),
				"/etc/chrony/chrony.conf": lines("")}},
		{"a container with control groups of its own, and a logind", func(in *node.Input) { in.Host.Contained = true }, without("kubelet.cgroupDriver", "kubelet.shutdownGracePeriod"),
			map[string][]string{kubeletFile: lines("cgroupDriver: systemd\n", "shutdownGracePeriod: 30s\n"), containerdFile: lines("SystemdCgroup = true\n")}, nil},
		{"a container whose user wrote what suits it", func(in *node.Input) {
			container(in)
			in.Config.KubeletConfig = &api.KubeletConfigSpec{CgroupDriver: "cgroupfs", ProtectKernelDefaults: ptr(false), FailSwapOn: ptr(true), ShutdownGracePeriod: &metav1.Duration{}}
			in.Config.NTPUnmanaged, in.Config.UpdatePolicy, in.Config.SysctlParameters = true, api.UpdateExternal, []string{"vm.swappiness=1"}
		}, lines("kubeProxy.conntrackMaxPerCore", "sysctlParameters", "oomScoreAdj"),
			map[string][]string{kubeletFile: lines("failSwapOn: true\n"), sysctlFile: lines("vm.swappiness=1\n")}, nil},
		{"a container of which little is said", func(in *node.Input) {
			container(in)
			in.Config.KubeletConfig, in.Config.KubeProxy = nil, nil
		}, without("kubelet.shutdownGracePeriod", "kubeProxy.conntrackMaxPerCore"),
			map[string][]string{kubeletFile: lines("cgroupDriver: cgroupfs\n"), containerdFile: lines("SystemdCgroup = false\n")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := virtualMachine()
			c.change(&in)
			before := encodeConfig(t, in)
			contents, nodes := texts(t, in)
			if p, ok := nodes["host_packages/packages"].Want.(*host.PackageSet); ok {
				contents["packages"] = p.Names
			}
			for file, want := range c.has {
				for _, s := range want {
					if !strings.Contains(contents[file], s) {
						t.Errorf("%q is not in %s:\n%s", s, file, contents[file])
					}
				}
			}
			for file, not := range c.hasNot {
				for _, s := range not {
					if text, ok := contents[file]; ok && strings.Contains(text, s) {
						t.Errorf("%q is in %s:\n%s", s, file, text)
					}
				}
			}
			var names []string
			for _, a := range node.ContainerAdaptations(in) {
				name, _, _ := strings.Cut(a, ": ")
				names = append(names, name)
			}
			if !slices.Equal(names, c.adapted) {
				t.Errorf("what is adapted is %q, want %q", names, c.adapted)
			}
			if encodeConfig(t, in) != before {
				t.Error("the configuration itself was changed")
			}
		})
	}
}

package node_test

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
)

func TestPackagesMissingInTheDistribution(t *testing.T) {
	gpu := func(in *node.Input) {
		in.Config.NvidiaGPU = &api.NvidiaGPUConfig{Enabled: ptr(true), Package: "driver"}
	}
	gvisor := func(in *node.Input) { in.Config.GVisor = &api.GVisorConfig{Enabled: ptr(true)} }
	for _, c := range []struct {
		distro, like string
		nvidia       bool
		change       func(*node.Input)
		name, want   string
		list         string
	}{
		{"ubuntu", "debian", true, gpu, "nvidia-container-toolkit", "driver nvidia-container-toolkit", "deb [signed-by=/etc/apt/keyrings/nvidia-container-toolkit.asc] https://nvidia.github.io/"},
		{"ubuntu", "debian", false, gpu, "nvidia-container-toolkit", "", ""},
		{"ubuntu", "debian", true, func(*node.Input) {}, "nvidia-container-toolkit", "", ""},
		{"amzn", "rhel", true, gpu, "nvidia-container-toolkit", "", ""},
		{"debian", "debian", false, gvisor, "gvisor", "runsc", "deb [signed-by=/etc/apt/keyrings/gvisor.asc] https://storage.googleapis.com/gvisor/"},
		{"rocky", "rhel", false, gvisor, "gvisor", "", ""},
	} {
		in := input()
		in.Host.Distro, in.Host.Like, in.Host.NVIDIA = c.distro, c.like, c.nvidia
		c.change(&in)
		contents, nodes := texts(t, in)
		got := ""
		if p, ok := nodes["host_packages/"+c.name].Want.(*host.PackageSet); ok {
			got = p.Names
		}
		if got != c.want || !strings.HasPrefix(contents["/etc/apt/sources.list.d/"+c.name+".list"], c.list) {
			t.Errorf("%+v: the packages are %q", c, got)
		}
		list, key := nodes["host_file//etc/apt/sources.list.d/"+c.name+".list"], "/etc/apt/keyrings/"+c.name+".asc"
		for _, first := range []resource.Address{{Kind: host.PackageSets.Name, Name: "packages"}, {Kind: host.Binaries.Name, Name: key}} {
			if c.want != "" && !slices.Contains(list.After, first) {
				t.Errorf("%+v: the list of packages does not wait for %s", c, first)
			}
		}
		last := resource.Address{Kind: host.PackageSets.Name, Name: c.name}
		if slices.Contains(nodes["host_unit/kubelet.service"].After, last) != (c.want != "") {
			t.Errorf("%+v: the kubelet does not wait for them, or for none", c)
		}
	}
}

func TestPackagesOfCalico(t *testing.T) {
	for want, given := range map[bool]*bool{true: nil, false: ptr(false)} {
		in := input()
		in.Host.Distro, in.Config.Networking = "ubuntu", api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{WireguardEnabled: given}}
		_, nodes := texts(t, in)
		p, ok := nodes["host_packages/packages"].Want.(*host.PackageSet)
		if !ok || slices.Contains(strings.Fields(p.Names), "wireguard") != want {
			t.Errorf("the packages are %+v", p)
		}
	}
}

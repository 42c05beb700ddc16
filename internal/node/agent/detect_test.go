package agent_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
)

// probe returns a Probe of a machine with these files.
func probe(t *testing.T, files map[string]string) agent.Probe {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addresses := func() ([]net.Addr, error) {
		var out []net.Addr
		for _, a := range []string{"127.0.0.1/8", "10.0.0.9/24", "fe80::1/64", "10.0.0.10/24"} {
			ip, n, err := net.ParseCIDR(a)
			if err != nil {
				return nil, err
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out, nil
	}
	return agent.Probe{Root: root, Arch: "arm64", Addresses: addresses,
		Resolve: func(_ context.Context, name string) ([]string, error) {
			if name != "lb.example.com" {
				return nil, errors.New("no such host")
			}
			return []string{"10.9.0.2", "10.9.0.1"}, nil
		},
		Hostname: func() (string, error) { return "m1", nil },
		Command: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			if name == "modinfo" && args[0] == "br_netfilter" || name == "systemctl" && args[1] == "systemd-logind.service" {
				return host.Run(ctx, "false")
			}
			return []byte("containerd github.com/containerd/containerd 1.6.20~ds1 abc\n"), nil
		}}
}

const ubuntu = "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"

func TestDetect(t *testing.T) {
	base := node.Host{Distro: "ubuntu", Release: "24.04", Like: "debian", Arch: "arm64", Name: "m1", NodeName: "m1", Names: []string{"m1", "10.0.0.10", "10.0.0.9"},
		Addresses: []string{"10.0.0.10", "10.0.0.9"}, CgroupV1: true}
	for _, c := range []struct {
		name   string
		files  map[string]string
		boot   *nodeconfig.Boot
		config nodeconfig.Config
		want   func(*node.Host)
	}{
		{"a plain machine", nil, &nodeconfig.Boot{}, nodeconfig.Config{}, func(*node.Host) {}},
		{"a container", map[string]string{"run/systemd/container": "systemd-nspawn"}, &nodeconfig.Boot{}, nodeconfig.Config{}, func(h *node.Host) { h.Contained, h.LacksLogind = true, true }},
		{"a container, as what started it says", map[string]string{"proc/1/environ": "TERM=linux\x00container=lxc\x00"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Contained, h.LacksLogind = true, true }},
		{"no container", map[string]string{"proc/1/environ": "TERM=linux\x00my_container=lxc\x00container=\x00"}, &nodeconfig.Boot{}, nodeconfig.Config{}, func(*node.Host) {}},
		{"new control groups", map[string]string{"sys/fs/cgroup/cgroup.controllers": ""}, &nodeconfig.Boot{}, nodeconfig.Config{}, func(h *node.Host) { h.CgroupV1 = false }},
		{"a resolver of its own", map[string]string{"etc/resolv.conf": "nameserver 127.0.0.53\n", "run/systemd/resolve/resolv.conf": ""}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Resolved = true }},
		{"somebody logs in", map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Admin = node.Account{Home: "/home/ubuntu", ID: 1000} }},
		{"somebody logs in to Rocky Linux", map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\nrocky:x:1000:1000::/home/rocky:/bin/bash\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Admin = node.Account{Home: "/home/rocky", ID: 1000} }},
		{"its first interface", map[string]string{"proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\nens5\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"},
			&nodeconfig.Boot{}, nodeconfig.Config{}, func(h *node.Host) { h.Interface = "ens5" }},
		{"the image's containerd", nil, &nodeconfig.Boot{}, nodeconfig.Config{ContainerdConfig: &api.ContainerdConfig{SkipInstall: true}},
			func(h *node.Host) { h.Containerd = "1.6.20~ds1" }},
		{"another distribution", map[string]string{"etc/os-release": "ID=\"amzn\"\nVERSION_ID=\"2023\"\nID_LIKE=\"fedora\"\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Distro, h.Release, h.Like = "amzn", "2023", "rhel" }},
		{"a relative of Red Hat's without rarer modules", map[string]string{"etc/os-release": "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"10.1\"\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) {
				h.Distro, h.Release, h.Like, h.LacksModules = "rocky", "10.1", "rhel", true
			}},
		{"one with them", map[string]string{"etc/os-release": "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"10.1\"\n"}, &nodeconfig.Boot{}, nodeconfig.Config{Networking: api.NetworkingSpec{Kindnet: &api.KindnetNetworkingSpec{}}},
			func(h *node.Host) { h.Distro, h.Release, h.Like = "rhel", "10.1", "rhel" }},
		{"an older one", map[string]string{"etc/os-release": "ID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Distro, h.Release, h.Like = "almalinux", "9.6", "rhel" }},
		{"Flatcar", map[string]string{"etc/os-release": "ID=flatcar\nID_LIKE=coreos\nVERSION_ID=4230.2.3\n", "etc/passwd": "core:x:500:500::/home/core:/bin/bash\n"}, &nodeconfig.Boot{},
			nodeconfig.Config{Packages: []string{"nfs-utils", "htop"}}, func(h *node.Host) {
				h.Distro, h.Release, h.Like, h.Containerd, h.Admin = "flatcar", "4230.2.3", "", "1.6.20~ds1", node.Account{Home: "/home/core", ID: 500}
				h.Warnings = []string{"the packages nfs-utils htop are not installed, because Flatcar has no packages; remove spec.packages, or use an image that contains them"}
			}},
		{"Container-Optimized OS", map[string]string{"etc/os-release": "NAME=\"Container-Optimized OS\"\nID=cos\nVERSION_ID=121\n"}, &nodeconfig.Boot{}, nodeconfig.Config{},
			func(h *node.Host) { h.Distro, h.Release, h.Like, h.Containerd = "cos", "121", "", "1.6.20~ds1" }},
		{"NVIDIA's processor", map[string]string{"sys/bus/pci/devices/0/vendor": "0x8086\n", "sys/bus/pci/devices/1/vendor": "0x10de\n", "sys/bus/pci/devices/1/class": "0x030200\n"},
			&nodeconfig.Boot{}, nodeconfig.Config{}, func(h *node.Host) { h.NVIDIA = true }},
		{"NVIDIA's sound and another's graphics", map[string]string{"sys/bus/pci/devices/0/vendor": "0x10de\n", "sys/bus/pci/devices/0/class": "0x040300\n",
			"sys/bus/pci/devices/1/vendor": "0x1013\n", "sys/bus/pci/devices/1/class": "0x030000\n"}, &nodeconfig.Boot{}, nodeconfig.Config{}, func(*node.Host) {}},
		{"no names are published", nil, &nodeconfig.Boot{ConfigServer: &nodeconfig.ConfigServer{Servers: []string{"https://lb.example.com:3988/", "https://[fd00::1]:3988/"}}},
			nodeconfig.Config{UsesNoneDNS: true}, func(h *node.Host) { h.APIAddresses = []string{"10.9.0.1", "10.9.0.2", "fd00::1"} }},
		{"no names are published, and addresses are known", nil, &nodeconfig.Boot{APIServerIPs: []string{"10.9.0.3"}, ConfigServer: &nodeconfig.ConfigServer{Servers: []string{"https://10.9.0.3:3988/"}}},
			nodeconfig.Config{UsesNoneDNS: true}, func(*node.Host) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"etc/os-release": ubuntu}
			for k, v := range c.files {
				files[k] = v
			}
			p := probe(t, files)
			got, err := p.Detect(t.Context(), c.boot, &c.config)
			if err != nil {
				t.Fatal(err)
			}
			want := base
			c.want(&want)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAMachineThatCannotBeIdentified(t *testing.T) {
	p := probe(t, map[string]string{"etc/os-release": ubuntu})
	unknown := &nodeconfig.Boot{ConfigServer: &nodeconfig.ConfigServer{Servers: []string{"https://other.example.com:3988/"}}}
	if _, err := p.Detect(t.Context(), unknown, &nodeconfig.Config{UsesNoneDNS: true}); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "the addresses of the API") {
		t.Errorf("error %v", err)
	}
	if _, err := probe(t, nil).Detect(t.Context(), &nodeconfig.Boot{}, &nodeconfig.Config{}); err == nil || !strings.Contains(err.Error(), "which distribution") {
		t.Errorf("error %v", err)
	}
}

func TestPlatformFacts(t *testing.T) {
	boot, config := &nodeconfig.Boot{CloudProvider: "x"}, &nodeconfig.Config{}
	told, failed := onmachine.Facts{NodeName: "i-1", Names: []string{"10.0.0.9", "i-1"}, Address: "10.0.0.9", ProviderID: "x:///i-1", MaxPods: 29, Warming: true, Waiting: "g",
		Warnings: []string{"w"}}, errors.New("nobody answers")
	p := probe(t, map[string]string{"etc/os-release": ubuntu})
	p.Platforms = []onmachine.Platform{{Name: "x", Traits: onmachine.Traits{TimeServers: "192.0.2.1"},
		Detect: func(_ context.Context, _ onmachine.World, b *nodeconfig.Boot, c *nodeconfig.Config) (onmachine.Facts, error) {
			if b != boot || c != config {
				t.Error("it is asked about another machine")
			}
			return told, failed
		}}}
	if _, err := p.Detect(t.Context(), boot, config); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	failed = nil
	h, err := p.Detect(t.Context(), boot, config)
	if err != nil {
		t.Fatal(err)
	}
	got := onmachine.Facts{NodeName: h.NodeName, Names: h.Names, Address: h.Address, ProviderID: h.ProviderID, MaxPods: h.MaxPods, Warming: h.Warming, Waiting: h.ScalingGroup, Warnings: h.Warnings}
	if d := cmp.Diff(told, got); d != "" || !h.OverrideName || h.Name != "m1" || h.Traits.TimeServers != "192.0.2.1" {
		t.Errorf("%+v %s", h, d)
	}
	told = onmachine.Facts{}
	if h, err := p.Detect(t.Context(), boot, config); err != nil || h.NodeName != "m1" || h.OverrideName || len(h.Names) == 0 {
		t.Errorf("a platform that tells nothing: %+v, %v", h, err)
	}
}

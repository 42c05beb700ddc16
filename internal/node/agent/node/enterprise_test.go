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

func TestRelativesOfRedHat(t *testing.T) {
	const common = "chrony container-selinux libseccomp logrotate util-linux"
	for _, c := range []struct {
		distro, release string
		change          func(*node.Input)
		packages        string
		masked, modules string
		proxy           string // the mode of kube-proxy where iptables is requested
	}{
		{"rocky", "8.10", nil, common + " iptables", "", "br_netfilter", "iptables"},
		{"rhel", "9.6", nil, common + " iptables-nft", "", "br_netfilter", "iptables"},
		{"almalinux", "9.6", func(in *node.Input) { in.Config.Networking.AmazonVPC = &api.AmazonVPCNetworkingSpec{} }, common + " iptables-nft",
			"nm-cloud-setup.service nm-cloud-setup.timer", "br_netfilter", "iptables"},
		{"centos", "10", nil, common + " nftables", "firewalld.service", "br_netfilter ip_set nf_conntrack nf_tables", "nftables"},
		{"rhel", "10.0", func(in *node.Input) {
			in.Config.Networking.Kindnet, in.Config.UsesKubenet, in.Host.LacksModules = &api.KindnetNetworkingSpec{}, true, true
		}, common + " iptables-nft nftables", "firewalld.service", "ip_set nf_conntrack nf_tables nfnetlink_queue", "nftables"},
		{"amzn", "2023", func(in *node.Input) { in.Config.Networking.AmazonVPC = &api.AmazonVPCNetworkingSpec{} }, common + " iptables-nft", "", "br_netfilter", "iptables"},
		{"fedora", "43", nil, common + " iptables-nft", "", "br_netfilter", "iptables"},
	} {
		t.Run(c.distro+" "+c.release, func(t *testing.T) {
			in := input()
			in.Host.Distro, in.Host.Release, in.Host.Like = c.distro, c.release, "rhel"
			in.Config.KubeProxy = &api.KubeProxyConfig{Image: "i", ProxyMode: "iptables"}
			if c.change != nil {
				c.change(&in)
			}
			all, nodes := texts(t, in)
			var masked, modules []string
			for _, n := range nodes {
				switch x := n.Want.(type) {
				case *host.Unit:
					if x.Masked && x.Off {
						masked = append(masked, x.Name)
					}
				case *host.Module:
					modules = append(modules, x.Name)
					if waits := slices.Contains(n.After, resource.Address{Kind: host.PackageSets.Name, Name: "kernel"}); waits != in.Host.LacksModules {
						t.Errorf("the module %s follows the package that has it: %t", x.Name, waits)
					}
				}
			}
			slices.Sort(masked)
			slices.Sort(modules)
			packages := strings.Fields(c.packages)
			slices.Sort(packages)
			p, ok := nodes["host_packages/packages"].Want.(*host.PackageSet)
			if !ok || p.Manager != "dnf" || p.Names != strings.Join(packages, " ") {
				t.Errorf("the packages are %+v", p)
			}
			if p, ok := nodes["host_packages/kernel"].Want.(*host.PackageSet); ok != in.Host.LacksModules || ok && (p.Names != "kernel-modules-extra" || !p.Optional) {
				t.Errorf("the package of modules is %+v", p)
			}
			if got := strings.Join(masked, " "); got != c.masked {
				t.Errorf("masked are %s", got)
			}
			if got := strings.Join(modules, " "); got != c.modules {
				t.Errorf("the modules are %s", got)
			}
			if !strings.Contains(all["/etc/kubernetes/manifests/kube-proxy.manifest"], "--proxy-mode="+c.proxy+"\n") {
				t.Error("kube-proxy works otherwise")
			}
			ten := c.proxy == "nftables"
			if (all["/etc/kops/firewalld-disabled"] != "") != ten || (all["kubernetes-iptables-setup.service"] == "") != ten {
				t.Error("the firewall is another's")
			}
		})
	}
}

// Newer releases have the names of routing tables where kube-router looks for them.
func TestKubeRouterFindsTheNamesOfRoutingTables(t *testing.T) {
	for _, c := range []struct {
		distro, release string
		want            bool
	}{{"debian", "12", true}, {"ubuntu", "24.04", true}, {"debian", "13", false}, {"rhel", "9.6", false}} {
		in := input()
		in.Host.Distro, in.Host.Release, in.Config.Networking.KubeRouter = c.distro, c.release, &api.KuberouterNetworkingSpec{}
		_, nodes := texts(t, in)
		l, ok := nodes["host_symlink//usr/share/iproute2"].Want.(*host.Symlink)
		if ok != c.want || ok && l.Target != "/etc/iproute2" {
			t.Errorf("%s %s: %+v", c.distro, c.release, l)
		}
	}
}

package node

import (
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// nftablesOnly is the first release of Enterprise Linux whose kernel filters
// packets by nftables alone, see "Considerations in adopting RHEL 10".
const nftablesOnly = 10

// enterprise returns the major release of Enterprise Linux, Red Hat's or a rebuild of it; 0 if the
// distribution only resembles it and counts differently.
func (h Host) enterprise() int {
	if h.Like != "rhel" || h.Distro == "amzn" || h.Distro == "fedora" {
		return 0
	}
	major, _, _ := strings.Cut(h.Release, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}

// ExtraModules reports whether a package kernel-modules-extra has the rarer modules of the kernel.
func ExtraModules(h Host) bool { return h.enterprise() >= nftablesOnly }

// KernelModules lists what the machine loads before anything else.
func KernelModules(h Host, n api.NetworkingSpec) []string {
	out := []string{"br_netfilter"}
	if n.Kindnet != nil {
		out = []string{"nfnetlink_queue"}
	}
	if h.enterprise() >= nftablesOnly {
		out = append(out, "nf_tables", "nf_conntrack", "ip_set")
	}
	return out
}

// enterprisePackages are the packages of Red Hat's relatives.
func (b *builder) enterprisePackages() []string {
	out := []string{"libseccomp", "util-linux", "container-selinux", "logrotate"}
	switch n := b.Host.enterprise(); {
	case n >= nftablesOnly:
		out = append(out, "nftables")
		if b.Config.UsesKubenet { // its rules and the reference plugins' are written with it
			out = append(out, "iptables-nft")
		}
	case n > 0 && n < 9:
		out = append(out, "iptables")
	default:
		out = append(out, "iptables-nft")
	}
	return out
}

// kernelPackages has the modules that the machine lacks. Without them it may still
// serve: some images let nobody install packages of the kernel.
func (b *builder) kernelPackages() ([]resource.Address, error) {
	if !b.Host.LacksModules {
		return nil, nil
	}
	a, err := add(b, &host.PackageSets, "kernel", host.PackageSet{Manager: "dnf", Names: "kernel-modules-extra", Optional: true}, b.packages...)
	return []resource.Address{a}, err
}

// noFirewalld switches firewalld off: with nftables each program has tables of its own, and what
// one table drops, another cannot accept.
func (b *builder) noFirewalld() error {
	if _, err := b.masked("firewalld.service"); err != nil {
		return err
	}
	return b.file("/etc/kops/firewalld-disabled", "firewalld is masked: the cloud's network, and the cluster's own policies, decide who reaches this machine.\n")
}

// cloudSetup keeps NetworkManager from giving the machine the addresses of its pods.
func (b *builder) cloudSetup() error {
	if b.Host.enterprise() < 9 {
		return nil
	}
	for _, unit := range []string{"nm-cloud-setup.service", "nm-cloud-setup.timer"} {
		a, err := b.masked(unit)
		if err != nil {
			return err
		}
		b.node = append(b.node, a)
	}
	return nil
}

// masked adds a unit of the distribution's that nothing is to start.
func (b *builder) masked(unit string) (resource.Address, error) {
	return add(b, &host.Units, unit, host.Unit{Name: unit, Off: true, Masked: true, Current: true}, slices.Clone(b.packages)...)
}

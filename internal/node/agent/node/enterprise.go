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
// packets only with nftables; see "Considerations in adopting RHEL 10".
const nftablesOnly = 10

// enterprise returns the major release of Red Hat Enterprise Linux or a rebuild of it; 0 for
// related distributions that are numbered differently.
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

// ExtraModules reports whether the kernel's rarer modules are in a separate package, kernel-modules-extra.
func ExtraModules(h Host) bool { return h.enterprise() >= nftablesOnly }

// KernelModules lists the modules that the machine loads before anything else.
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

// enterprisePackages returns the packages for Red Hat-like distributions.
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

// kernelPackages adds the package with the modules that the machine is missing.
// Without them the machine may still work: some images do not allow kernel
// packages to be installed.
func (b *builder) kernelPackages() ([]resource.Address, error) {
	if !b.Host.LacksModules {
		return nil, nil
	}
	a, err := add(b, &host.PackageSets, "kernel", host.PackageSet{Manager: "dnf", Names: "kernel-modules-extra", Optional: true}, b.packages...)
	return []resource.Address{a}, err
}

// noFirewalld disables firewalld: with nftables each program has tables of its own, and a packet
// that one table drops cannot be accepted by another.
func (b *builder) noFirewalld() error {
	if _, err := b.maskUnit("firewalld.service"); err != nil {
		return err
	}
	return b.file("/etc/kops/firewalld-disabled", "firewalld is masked: the cloud's network, and the cluster's own policies, control access to this machine.\n")
}

// cloudSetup keeps NetworkManager from assigning pod addresses to the machine.
func (b *builder) cloudSetup() error {
	if b.Host.enterprise() < 9 {
		return nil
	}
	for _, unit := range []string{"nm-cloud-setup.service", "nm-cloud-setup.timer"} {
		a, err := b.maskUnit(unit)
		if err != nil {
			return err
		}
		b.node = append(b.node, a)
	}
	return nil
}

// maskUnit adds a unit of the distribution that must not be started.
func (b *builder) maskUnit(unit string) (resource.Address, error) {
	return add(b, &host.Units, unit, host.Unit{Name: unit, Off: true, Masked: true, Current: true}, slices.Clone(b.packages)...)
}

package node

import (
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// podNetwork prepares the machine for the pod network.
func (b *builder) podNetwork() error {
	for _, step := range []struct {
		do func() error
		on bool
	}{
		{b.masquerade, b.Config.UsesKubenet}, {b.ciliumGroups, b.Config.Networking.Cilium != nil}, {b.foreignAddresses, b.Config.Networking.Cilium != nil || b.Config.CloudAddresses()},
		{b.cloudSetup, b.Config.CloudAddresses()},
		{b.routingTables, b.Config.Networking.KubeRouter != nil},
	} {
		if !step.on {
			continue
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// ciliumGroups mounts the machine's cgroups where Cilium attaches its programs to
// them: its own pod sees only its own cgroup. (Systemd itself mounts the BPF file
// system.)
func (b *builder) ciliumGroups() error {
	a, err := b.unit("run-cilium-cgroupv2.mount", `[Unit]
Description=The machine's control groups, for Cilium
Before=kubelet.service

[Mount]
What=cgroup2
Where=/run/cilium/cgroupv2
Type=cgroup2

[Install]
WantedBy=multi-user.target
`, nil)
	b.node = append(b.node, a)
	return err
}

// secondaryAddresses reports whether the machine has pod addresses in addition to its own.
func (b *builder) secondaryAddresses() bool {
	n := b.Config.Networking
	return b.Config.CloudAddresses() || n.CNI != nil && n.CNI.UsesSecondaryIP
}

// routingTables makes the names of routing tables available where kube-router
// looks for them, which is where newer releases of iproute2 have them.
func (b *builder) routingTables() error {
	old := map[string][]string{"debian": {"11", "12"}, "ubuntu": {"22.04", "24.04"}}[b.Host.Distro]
	if !slices.Contains(old, b.Host.Release) {
		return nil
	}
	const path = "/usr/share/iproute2"
	a, err := add(b, &host.Symlinks, path, host.Symlink{Path: path, Target: "/etc/iproute2"})
	b.node = append(b.node, a)
	return err
}

// runsRelease reports whether the machine runs the given release of a distribution, or a later one.
func (b *builder) runsRelease(distro string, major int) bool {
	first, _, _ := strings.Cut(b.Host.Release, ".")
	n, err := strconv.Atoi(first)
	return b.Host.Distro == distro && err == nil && n >= major
}

// foreignAddresses keeps the distribution from managing the interfaces, addresses
// and routes of pods.
func (b *builder) foreignAddresses() error {
	amazon, eni := b.runsRelease("amzn", 2023), b.Config.CloudAddresses()
	debian := b.runsRelease("debian", 12)
	files := []struct {
		on         bool
		path, text string
	}{
		{amazon || debian || b.runsRelease("ubuntu", 22), "/usr/lib/systemd/networkd.conf.d/40-disable-manage-foreign-routes.conf",
			"[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"},
		{eni && (amazon || debian || b.runsRelease("ubuntu", 22)), "/etc/systemd/network/99-default.link",
			"[Match]\nOriginalName=*\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=none\n"},
		{eni && (amazon || debian) && b.Host.Interface != "", "/etc/systemd/network/75-eni-secondary.network",
			"[Match]\nDriver=ena\nName=!" + b.Host.Interface + "\n\n[Link]\nUnmanaged=yes\n"},
		{eni && amazon, "/etc/udev/rules.d/99-vpc-policy-routes.rules", "# Replaces the distribution's rules, which would route the addresses of pods.\n"},
		{eni && (debian || b.runsRelease("ubuntu", 24)), "/etc/cloud/cloud.cfg.d/99-disable-network-hotplug.cfg", "updates:\n  network:\n    when: [boot-new-instance]\n"},
		{eni && b.Host.Distro == "debian" && b.Host.Release == "11", "/etc/udev/rules.d/75-cloud-ifupdown.rules",
			"# Replaces the distribution's rules, which would configure the interfaces of pods.\n"},
	}
	var texts []string
	var after []resource.Address
	for _, f := range files {
		if !f.on {
			continue
		}
		if err := b.file(f.path, f.text); err != nil {
			return err
		}
		if strings.Contains(f.path, "/systemd/network") {
			texts, after = append(texts, f.text), append(after, resource.Address{Kind: host.Files.Name, Name: f.path})
		}
	}
	if len(texts) == 0 {
		return nil
	}
	// It has no [Install] section: a machine that boots reads the files anyway.
	a, err := b.unit("kops-networkd.service", "[Unit]\nDescription=Restart systemd-networkd if it is running\n\n[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl try-restart systemd-networkd.service\n",
		after, texts...)
	b.node = append(b.node, a)
	return err
}

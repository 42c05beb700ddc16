package node

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// volumes mounts the volumes one after another, because one may be inside another,
// once the programs that format them are installed.
func (b *builder) volumes() error {
	for _, v := range b.Config.VolumeMounts {
		m := host.Mount{Path: path.Clean(v.Path), Device: v.Device, Filesystem: filesystem(v), FormatOptions: v.FormatOptions}
		if !path.IsAbs(m.Path) {
			return fmt.Errorf("volumeMounts: the path %q does not begin with /", v.Path)
		}
		m.Unit = resource.Text(resource.Lit(host.MountUnit(m, v.MountOptions)))
		a, err := add(b, &host.Mounts, m.Path, m, slices.Concat(b.packages, b.mounts)...)
		if err != nil {
			return err
		}
		b.mounts = append(b.mounts, a)
	}
	return nil
}

// filesystem returns the type of a mount's file system, as mount(2) names it.
func filesystem(v api.VolumeMountSpec) string {
	if v.Filesystem == "btfs" { // the specification's spelling
		return "btrfs"
	}
	return v.Filesystem
}

// needsMounts returns the unit line that keeps a service from running without the
// user's file systems: anything it wrote to the disk below would be hidden, and
// lost.
func (b *builder) needsMounts() string {
	if len(b.mounts) == 0 {
		return ""
	}
	line := "RequiresMountsFor="
	for i, a := range b.mounts {
		if i > 0 {
			line += " "
		}
		line += `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(a.Name) + `"`
	}
	return line + "\n"
}

func (b *builder) directories() error {
	for _, d := range []string{b.places.keys, manifests, "/etc/sysconfig", "/var/lib/kubelet", b.volumePlugins(), cniBinaries, cniConfigs, ownBinaries} {
		if err := b.directory(strings.TrimSuffix(d, "/"), "0755", 0); err != nil {
			return err
		}
	}
	return nil
}

// hostsBlock is the name of our part of /etc/hosts.
const hostsBlock = "host entries managed by kops"

// hosts adds names that are not published in DNS.
func (b *builder) hosts() error {
	if !b.Config.UsesNoneDNS {
		return nil
	}
	var lines []string
	api := b.internal("api")
	if b.hasAPIServer() {
		names := api
		if n := b.Config.APIServerConfig.API.PublicName; n != "" && n != api {
			names += " " + n
		}
		lines = append(lines, "127.0.0.1 "+names)
		for _, ip := range b.Boot.EtcdIPs {
			for _, etcd := range servedEtcds() {
				ip += " " + hostnames.Etcd(etcd, b.Config.ClusterName)
			}
			lines = append(lines, ip)
		}
	} else {
		for _, ip := range append(slices.Clone(b.Boot.APIServerIPs), b.Host.APIAddresses...) {
			lines = append(lines, ip+" "+api+" "+b.internal("kops-controller"))
		}
	}
	a, err := add(b, &host.Blocks, "hosts", host.Block{Path: "/etc/hosts", Name: hostsBlock, Lines: lines})
	b.node = append(b.node, a)
	return err
}

func (b *builder) kernel() error {
	after, err := b.kernelPackages()
	if err != nil {
		return err
	}
	for _, m := range KernelModules(b.Host, b.Config.Networking) {
		if _, err := add(b, &host.Modules, m, host.Module{Name: m}, after...); err != nil {
			return err
		}
	}
	const file = "/etc/sysctl.d/99-k8s-general.conf"
	_, err = add(b, &host.SysctlFiles, file, host.SysctlFile{Path: file, Content: resource.Text(resource.Lit(strings.Join(b.sysctls(), "\n") + "\n"))})
	return err
}

// sysctls returns the kernel parameters of every machine of a cluster.
func (b *builder) sysctls() []string {
	out := []string{
		"# Limits that Kubernetes needs, and a restart after a kernel panic",
		"vm.max_map_count=1048576",
		"kernel.softlockup_panic=1",
		"kernel.softlockup_all_cpu_backtrace=1",
		"net.ipv4.ip_local_reserved_ports=" + cmp.Or(b.Config.ServiceNodePortRange, ports.NodePorts),
		"net.core.somaxconn=32768",
		"net.core.rmem_max=16777216",
		"net.core.wmem_max=16777216",
		"net.ipv4.tcp_wmem=4096 87380 16777216",
		"net.ipv4.tcp_rmem=4096 87380 16777216",
		"net.ipv4.tcp_max_syn_backlog=8096",
		"net.ipv4.tcp_slow_start_after_idle=0",
		"net.ipv4.tcp_tw_reuse=1",
		"net.core.netdev_max_backlog=16384",
		"fs.file-max=2097152",
		"fs.inotify.max_user_instances=8192",
		"vm.overcommit_memory=1",
		"kernel.panic=10",
		"kernel.panic_on_oops=1",
	}
	out = append(out, b.Host.Traits.KernelParameters...)
	if strings.Contains(b.Config.Networking.NonMasqueradeCIDR, ":") {
		out = append(out, "net.ipv6.conf.all.forwarding=1")
		if b.Host.Distro == "debian" && b.Host.Release == "11" { // a forwarding host ignores router advertisements by default
			out = append(out, "net.ipv6.conf.ens*.accept_ra=2")
		}
	} else {
		out = append(out, "net.ipv4.ip_forward=1")
	}
	if b.Config.Networking.Cilium != nil {
		out = append(out, "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.lxc*.rp_filter=0", "net.ipv4.conf.cilium_*.rp_filter=0")
	}
	if b.Host.Contained {
		out = ownParameters(out)
	}
	return append(out, b.Config.SysctlParameters...)
}

// system configures the distribution: its clock, its updates, its logs.
func (b *builder) system() error {
	for _, step := range []func() error{b.clock, b.updates, b.logs, b.firewall} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) managesClock() bool { return !b.Config.NTPUnmanaged && b.places.image == "" }

func (b *builder) packageSet() error {
	manager := "apt"
	names := []string{"iptables", "libapparmor1", "libseccomp2", "util-linux", "logrotate"}
	if b.Host.Like == "rhel" {
		manager, names = "dnf", b.enterprisePackages()
	} else if b.Config.UpdatePolicy != api.UpdateExternal && !b.Host.Contained {
		names = append(names, "unattended-upgrades")
	}
	if b.managesClock() {
		names = append(names, "chrony")
	}
	if p := b.Config.KubeProxy; p != nil && p.ProxyMode == "nftables" {
		names = append(names, "nftables")
	}
	if c := b.Config.Networking.Calico; c != nil && (c.WireguardEnabled == nil || *c.WireguardEnabled) && b.Host.Distro == "ubuntu" {
		names = append(names, "wireguard")
	}
	for _, v := range b.Config.VolumeMounts { // some distributions' images do not include them
		names = append(names, map[string]string{"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[filesystem(v)])
	}
	names = unique(append(names, b.Config.Packages...))
	a, err := add(b, &host.PackageSets, "packages", host.PackageSet{Manager: manager, Names: strings.Join(names, " ")})
	b.packages = []resource.Address{a}
	return err
}

// clock configures chrony where the cloud has its own time source.
func (b *builder) clock() error {
	if !b.managesClock() {
		return nil
	}
	source := b.Host.Traits.TimeServers
	if source == "" {
		return nil
	}
	file, unit := "/etc/chrony/chrony.conf", "chrony.service"
	if b.Host.Like == "rhel" {
		file, unit = "/etc/chrony.conf", "chronyd.service"
	}
	config := "pool " + source + " prefer iburst\ndriftfile /var/lib/chrony/drift\nleapsectz right/UTC\nmakestep 1.0 3\nmaxupdateskew 100.0\nrtcsync\n"
	if err := b.file(file, config); err != nil {
		return err
	}
	content := host.WithDigest("[Unit]\nStartLimitIntervalSec=0", config)
	_, err := add(b, &host.Units, unit, host.Unit{Name: unit, DropIn: true, Content: resource.Text(resource.Lit(content)), On: true, Current: true},
		append(slices.Clone(b.packages), resource.Address{Kind: host.Files.Name, Name: file})...)
	return err
}

// updates enables or disables the distribution's own updates.
func (b *builder) updates() error {
	switch {
	case b.places.image != "" && b.Config.UpdatePolicy == api.UpdateExternal:
		return b.imageUpdates()
	case b.Host.Like != "debian":
		return nil
	}
	text := "APT::Periodic::Update-Package-Lists \"1\";\nAPT::Periodic::Unattended-Upgrade \"1\";\nAPT::Periodic::AutocleanInterval \"7\";\n"
	if b.Config.UpdatePolicy == api.UpdateExternal {
		text = "APT::Periodic::Enable \"0\";\n"
	}
	return b.file("/etc/apt/apt.conf.d/20auto-upgrades", text)
}

// logs keeps the components' logs from filling the disk.
func (b *builder) logs() error {
	names := []string{"docker", "kube-addons", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet", "etcd", "etcd-events", "etcd-leases"}
	if b.Config.UseCiliumEtcd {
		names = append(names, "etcd-cilium")
	}
	for _, n := range names {
		text := "/var/log/" + n + ".log {\n  rotate 5\n  copytruncate\n  missingok\n  notifempty\n  delaycompress\n  maxsize 100M\n  daily\n  create 0644 root root\n}\n"
		if err := b.file("/etc/logrotate.d/"+n, text); err != nil {
			return err
		}
	}
	const service = "/etc/systemd/system/logrotate.service"
	rotate := "/usr/sbin/logrotate /etc/logrotate.conf"
	if b.places.image != "" { // an image has its own configuration, in another file, for its own logs
		rotate = "logrotate --state /var/lib/kops/logrotate.status /etc/logrotate.d"
	}
	if err := b.file(service, "[Unit]\nDescription=Rotate log files\n\n[Service]\nType=oneshot\nExecStart="+rotate+"\n"); err != nil {
		return err
	}
	_, err := b.unit("logrotate.timer", "[Unit]\nDescription=Rotate log files every hour\n\n[Timer]\nOnCalendar=hourly\n\n[Install]\nWantedBy=timers.target\n",
		append(slices.Clone(b.packages), resource.Address{Kind: host.Files.Name, Name: service}))
	return err
}

// firewall opens what a distribution blocks by default: security groups, or the
// network itself, control access to a machine.
func (b *builder) firewall() error {
	if b.Host.enterprise() >= nftablesOnly {
		return b.noFirewalld()
	}
	const script = ownBinaries + "/iptables-setup"
	text := `#!/bin/bash
# Accepts what the distribution's own rules would drop.
set -o errexit
for chain in INPUT FORWARD; do
  if iptables --wait --list-rules "${chain}" | grep --quiet -- "^-P ${chain} DROP"; then
    for protocol in tcp udp icmp; do
      rule=("${chain}" --wait --protocol "${protocol}" --jump ACCEPT)
      iptables --check "${rule[@]}" 2>/dev/null || iptables --append "${rule[@]}"
    done
  fi
done
`
	if err := b.fileWith(script, text, "0755", 0); err != nil {
		return err
	}
	_, err := b.unit("kubernetes-iptables-setup.service", "[Unit]\nDescription=Accept traffic of Kubernetes\nBefore=network.target\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart="+
		script+"\n\n[Install]\nWantedBy=multi-user.target\n", append(slices.Clone(b.packages), resource.Address{Kind: host.Files.Name, Name: script}), text)
	return err
}

// images pulls images ahead while a machine waits in a warm pool.
func (b *builder) images() error {
	for _, name := range b.warmImages() {
		if _, err := add(b, &host.Images, name, host.Image{Name: name}, b.runtime...); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return nil
}

// importImages adds images that are in no registry. The kubelet depends on them; otherwise
// it would try to pull them, in vain and with growing pauses.
func (b *builder) importImages() error {
	for _, i := range b.Config.Images[b.Host.Arch] {
		a, err := host.NewAsset(i.Hash + "@" + strings.Join(i.Sources, ","))
		if err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
		fetched, err := add(b, &host.Assets, a.Base(), a)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
		image, err := add(b, &host.Images, i.Name, host.Image{Name: i.Name, Archive: a.File}, append(slices.Clone(b.runtime), fetched)...)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
		b.node = append(b.node, image)
	}
	return nil
}

// warmImages returns the images that a machine pulls ahead while it is being warmed; none on other
// machines.
func (b *builder) warmImages() []string {
	if !b.Host.Warming {
		return nil
	}
	return unique(b.Config.WarmPoolImages)
}

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/platform/onmachine"
)

// Probe identifies the machine from its files, its interfaces, and its cloud's
// metadata.
type Probe struct {
	// Root is the root of the machine's file system.
	Root string
	// Arch is the processor's architecture in Go's naming.
	Arch string
	// Hostname and Addresses are those of the operating system.
	Hostname  func() (string, error)
	Addresses func() ([]net.Addr, error)
	// Command runs a program; may be nil.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Resolve looks up the addresses of a name in DNS.
	Resolve func(ctx context.Context, name string) ([]string, error)
	// Platforms are the known platforms; World is what they need.
	Platforms []onmachine.Platform
	World     onmachine.World
}

// Detect is an Agent.Detect.
func (p Probe) Detect(ctx context.Context, boot *nodeconfig.Boot, c *nodeconfig.Config) (node.Host, error) {
	h := node.Host{Arch: download.Arch(p.Arch), CgroupV1: !p.exists("/sys/fs/cgroup/cgroup.controllers"), Contained: p.isContainer()}
	if err := p.distribution(&h); err != nil {
		return h, err
	}
	var err error
	if h.Name, err = p.Hostname(); err != nil {
		return h, fmt.Errorf("get the machine's name: %w", err)
	}
	if h.Addresses, err = p.addresses(); err != nil {
		return h, err
	}
	h.NodeName, h.Names = h.Name, append([]string{h.Name}, h.Addresses...)
	resolv, _ := os.ReadFile(filepath.Join(p.Root, "/etc/resolv.conf")) // if the file is missing there is no local resolver
	h.Resolved = bytes.Contains(resolv, []byte("nameserver 127.0.0.53")) && p.exists("/run/systemd/resolve/resolv.conf")
	h.Admin, h.Interface = p.admin(), p.defaultInterface()
	h.Authorities = p.authorities()
	h.LacksLogind = h.Contained && p.isLogindMissing(ctx)
	h.LacksModules, h.NVIDIA = p.areModulesMissing(ctx, h, c), p.nvidia()
	h.Warnings = unsupported(h, c)
	if r := c.ContainerdConfig; r != nil && r.SkipInstall || h.Image() != "" {
		if h.Containerd, err = p.containerd(ctx); err != nil {
			return h, err
		}
	}
	if h.APIAddresses, err = p.apiAddresses(ctx, boot, c); err != nil {
		return h, err
	}
	platform, _ := onmachine.Find(p.Platforms, boot.CloudProvider)
	if h.Traits = platform.Traits; platform.Detect == nil {
		return h, nil
	}
	detected, err := platform.Detect(ctx, p.World, boot, c)
	if detected.NodeName != "" {
		h.NodeName, h.OverrideName, h.Names = detected.NodeName, true, detected.Names
	}
	h.Address, h.ProviderID, h.MaxPods = detected.Address, detected.ProviderID, detected.MaxPods
	h.Warming, h.ScalingGroup, h.Warnings = detected.Warming, detected.Waiting, append(h.Warnings, detected.Warnings...)
	return h, err
}

// apiAddresses returns the addresses of the API, if the cluster publishes no name of its own and
// the boot configuration names no address: the addresses of the load balancer in front of
// kops-controller, which serves the API, too.
func (p Probe) apiAddresses(ctx context.Context, boot *nodeconfig.Boot, c *nodeconfig.Config) ([]string, error) {
	if !c.UsesNoneDNS || c.APIServerConfig != nil || boot.ConfigServer == nil || len(boot.APIServerIPs) > 0 {
		return nil, nil
	}
	var out []string
	for _, server := range boot.ConfigServer.Servers {
		u, err := url.Parse(server)
		if err != nil {
			return nil, fmt.Errorf("find the addresses of the API: %w", err)
		}
		found := []string{u.Hostname()}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			if found, err = p.Resolve(ctx, u.Hostname()); err != nil {
				return nil, fault.Wrap(fault.NotYet, fmt.Errorf("find the addresses of the API: %w", err), "check that the machine's resolver works: resolvectl query "+u.Hostname())
			}
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (p Probe) exists(path string) bool {
	_, err := os.Stat(filepath.Join(p.Root, path))
	return err == nil
}

// distribution reads /etc/os-release.
func (p Probe) distribution(h *node.Host) error {
	text, err := os.ReadFile(filepath.Join(p.Root, "/etc/os-release"))
	if err != nil {
		return fmt.Errorf("find out which distribution this is: %w", err)
	}
	v := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			v[name] = strings.Trim(value, `"'`)
		}
	}
	h.Distro, h.Release = v["ID"], v["VERSION_ID"]
	family := append([]string{h.Distro}, strings.Fields(v["ID_LIKE"])...)
	switch {
	case slices.Contains(family, "debian"), slices.Contains(family, "ubuntu"):
		h.Like = "debian"
	case slices.ContainsFunc(family, func(s string) bool { return slices.Contains([]string{"rhel", "fedora", "centos", "amzn"}, s) }):
		h.Like = "rhel"
	}
	return nil
}

// isContainer reports whether the machine is a container: its systemd has recorded
// that, or the program that started it has, in the variable "container" of process 1
// (systemd-detect-virt(1)).
func (p Probe) isContainer() bool {
	if p.exists("/run/systemd/container") {
		return true
	}
	environment, _ := os.ReadFile(filepath.Join(p.Root, "/proc/1/environ")) // if unreadable, assume the variable is not set
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("container=")); ok && len(value) > 0 {
			return true
		}
	}
	return false
}

// isLogindMissing reports whether systemd shows that logind does not run.
func (p Probe) isLogindMissing(ctx context.Context) bool {
	if p.Command == nil {
		return false
	}
	_, err := p.Command(ctx, "systemctl", "is-active", "systemd-logind.service")
	var failed *exec.ExitError
	return errors.As(err, &failed)
}

// unsupported lists the settings of a configuration that an image-based system does not support.
func unsupported(h node.Host, c *nodeconfig.Config) []string {
	if h.Image() == "" || len(c.Packages) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the packages %s are not installed, because %s has no packages; remove spec.packages, or use an image that contains them", strings.Join(c.Packages, " "), h.Image())}
}

// areModulesMissing reports whether a kernel module's file is missing, on distributions
// that ship rarer modules in a package that images may not include.
func (p Probe) areModulesMissing(ctx context.Context, h node.Host, c *nodeconfig.Config) bool {
	if !node.ExtraModules(h) || h.Contained || p.Command == nil {
		return false
	}
	return slices.ContainsFunc(node.KernelModules(h, c.Networking), func(module string) bool {
		_, err := p.Command(ctx, "modinfo", module)
		var failed *exec.ExitError
		return errors.As(err, &failed)
	})
}

// nvidia reports whether the PCI bus has a display device (by its base class,
// PCI_BASE_CLASS_DISPLAY in Linux) made by NVIDIA (PCI_VENDOR_ID_NVIDIA).
func (p Probe) nvidia() bool {
	devices, _ := filepath.Glob(filepath.Join(p.Root, "/sys/bus/pci/devices/*")) // the pattern is valid
	return slices.ContainsFunc(devices, func(device string) bool {
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(device, name)) // a missing file does not match
			return strings.TrimSpace(string(text))
		}
		return read("vendor") == "0x10de" && strings.HasPrefix(read("class"), "0x03")
	})
}

// addresses lists the addresses under which others can reach the machine, sorted.
func (p Probe) addresses() ([]string, error) {
	all, err := p.Addresses()
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	var out []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// defaultInterface returns the interface of the first default route in /proc/net/route (proc(5)).
func (p Probe) defaultInterface() string {
	text, _ := os.ReadFile(filepath.Join(p.Root, "/proc/net/route")) // without the file there is no such route
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// admin returns the login account of the distribution's images.
func (p Probe) admin() node.Account {
	text, _ := os.ReadFile(filepath.Join(p.Root, "/etc/passwd")) // without the file there is only root
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 7 && slices.Contains([]string{"ubuntu", "admin", "ec2-user", "rocky", "almalinux", "cloud-user", "core"}, f[0]) {
			if id, err := strconv.Atoi(f[2]); err == nil {
				return node.Account{Home: f[5], ID: id}
			}
		}
	}
	return node.Account{}
}

// containerd returns the version of the containerd in the image.
func (p Probe) containerd(ctx context.Context) (string, error) {
	if p.Command == nil {
		return "", nil
	}
	text, err := p.Command(ctx, "containerd", "--version")
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("get the version of containerd: %w", err), "use an image that contains containerd, or remove spec.containerd.skipInstall")
	}
	for _, word := range strings.Fields(string(text)) { // containerd <module> <version> <commit>
		if v := strings.TrimPrefix(word, "v"); v != "" && v[0] >= '0' && v[0] <= '9' && strings.Contains(v, ".") {
			return v, nil
		}
	}
	return "", fmt.Errorf("get the version of containerd: cannot parse %q", strings.TrimSpace(string(text)))
}

// authorities returns the CA certificates that the machine trusts, from the first
// existing location of those that distributions use.
func (p Probe) authorities() string {
	for _, place := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem"} {
		if text, err := os.ReadFile(filepath.Join(p.Root, place)); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	return ""
}

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

// Probe finds out what machine this is, from its files, its interfaces, and
// what its cloud tells each machine about itself.
type Probe struct {
	// Root is where the machine's file system begins.
	Root string
	// Arch is the processor's architecture, as Go names it.
	Arch string
	// Hostname and Addresses are the operating system's.
	Hostname  func() (string, error)
	Addresses func() ([]net.Addr, error)
	// Command runs a program; may be nil.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Resolve asks the DNS for the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]string, error)
	// Platforms are those that are known; World is what they need.
	Platforms []onmachine.Platform
	World     onmachine.World
}

// Detect is an Agent.Detect.
func (p Probe) Detect(ctx context.Context, boot *nodeconfig.Boot, c *nodeconfig.Config) (node.Host, error) {
	h := node.Host{Arch: download.Arch(p.Arch), CgroupV1: !p.exists("/sys/fs/cgroup/cgroup.controllers"), Contained: p.contained()}
	if err := p.distribution(&h); err != nil {
		return h, err
	}
	var err error
	if h.Name, err = p.Hostname(); err != nil {
		return h, fmt.Errorf("ask for the machine's name: %w", err)
	}
	if h.Addresses, err = p.addresses(); err != nil {
		return h, err
	}
	h.NodeName, h.Names = h.Name, append([]string{h.Name}, h.Addresses...)
	resolv, _ := os.ReadFile(filepath.Join(p.Root, "/etc/resolv.conf")) // without one there is no resolver of its own
	h.Resolved = bytes.Contains(resolv, []byte("nameserver 127.0.0.53")) && p.exists("/run/systemd/resolve/resolv.conf")
	h.Admin, h.Interface = p.admin(), p.defaultInterface()
	h.Authorities = p.authorities()
	h.LacksLogind = h.Contained && p.lacksLogind(ctx)
	h.LacksModules, h.NVIDIA = p.lacksModules(ctx, h, c), p.nvidia()
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
	told, err := platform.Detect(ctx, p.World, boot, c)
	if told.NodeName != "" {
		h.NodeName, h.OverrideName, h.Names = told.NodeName, true, told.Names
	}
	h.Address, h.ProviderID, h.MaxPods = told.Address, told.ProviderID, told.MaxPods
	h.Warming, h.ScalingGroup, h.Warnings = told.Warming, told.Waiting, append(h.Warnings, told.Warnings...)
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
				return nil, fault.Wrap(fault.NotYet, fmt.Errorf("find the addresses of the API: %w", err), "see whether the machine's resolver answers: resolvectl query "+u.Hostname())
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

// contained reports whether the machine is a container: its systemd noted so, or what
// started it did, as the variable "container" of process 1 (systemd-detect-virt(1)).
func (p Probe) contained() bool {
	if p.exists("/run/systemd/container") {
		return true
	}
	environment, _ := os.ReadFile(filepath.Join(p.Root, "/proc/1/environ")) // unread, it tells nothing
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("container=")); ok && len(value) > 0 {
			return true
		}
	}
	return false
}

// lacksLogind reports whether systemd says that logind does not run.
func (p Probe) lacksLogind(ctx context.Context) bool {
	if p.Command == nil {
		return false
	}
	_, err := p.Command(ctx, "systemctl", "is-active", "systemd-logind.service")
	var failed *exec.ExitError
	return errors.As(err, &failed)
}

// unsupported says what of a configuration a system of one image cannot have.
func unsupported(h node.Host, c *nodeconfig.Config) []string {
	if h.Image() == "" || len(c.Packages) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the packages %s are not installed, as %s has none; leave out spec.packages, or use an image that holds what they bring", strings.Join(c.Packages, " "), h.Image())}
}

// lacksModules reports whether there is no file of a module of the kernel's where
// the rarer ones are in a package that images need not hold.
func (p Probe) lacksModules(ctx context.Context, h node.Host, c *nodeconfig.Config) bool {
	if !node.ExtraModules(h) || h.Contained || p.Command == nil {
		return false
	}
	return slices.ContainsFunc(node.KernelModules(h, c.Networking), func(module string) bool {
		_, err := p.Command(ctx, "modinfo", module)
		var failed *exec.ExitError
		return errors.As(err, &failed)
	})
}

// nvidia reports whether a device of the PCI bus is for graphics, as its base class
// says (Linux, PCI_BASE_CLASS_DISPLAY), and made by NVIDIA (PCI_VENDOR_ID_NVIDIA).
func (p Probe) nvidia() bool {
	devices, _ := filepath.Glob(filepath.Join(p.Root, "/sys/bus/pci/devices/*")) // the pattern is right
	return slices.ContainsFunc(devices, func(device string) bool {
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(device, name)) // without the file it is none
			return strings.TrimSpace(string(text))
		}
		return read("vendor") == "0x10de" && strings.HasPrefix(read("class"), "0x03")
	})
}

// addresses lists what others can reach the machine under, sorted.
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

// defaultInterface is the interface of the first route to everywhere, as /proc/net/route has it (proc(5)).
func (p Probe) defaultInterface() string {
	text, _ := os.ReadFile(filepath.Join(p.Root, "/proc/net/route")) // without one there is no such route
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// admin finds the account that the distribution's images have for those who log in.
func (p Probe) admin() node.Account {
	text, _ := os.ReadFile(filepath.Join(p.Root, "/etc/passwd")) // without one there is root alone
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

// containerd asks for the version of the containerd that the image holds.
func (p Probe) containerd(ctx context.Context) (string, error) {
	if p.Command == nil {
		return "", nil
	}
	text, err := p.Command(ctx, "containerd", "--version")
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("ask containerd for its version: %w", err), "use an image that holds containerd, or leave out spec.containerd.skipInstall")
	}
	for _, word := range strings.Fields(string(text)) { // containerd <module> <version> <commit>
		if v := strings.TrimPrefix(word, "v"); v != "" && v[0] >= '0' && v[0] <= '9' && strings.Contains(v, ".") {
			return v, nil
		}
	}
	return "", fmt.Errorf("ask containerd for its version: it says %q", strings.TrimSpace(string(text)))
}

// authorities are the certificates that the machine trusts, from the first of the places
// in which distributions keep them.
func (p Probe) authorities() string {
	for _, place := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem"} {
		if text, err := os.ReadFile(filepath.Join(p.Root, place)); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	return ""
}

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/agent/node"
	"kops.local/kops/internal/assets"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/model"
)

// Probe finds out what machine this is, from its files, its interfaces, and
// what its cloud tells each machine about itself.
type Probe struct {
	// Root is where the machine's file system begins.
	Root string
	// Arch is the processor's architecture, as Go names it.
	Arch string
	// Hostname and Addresses are those of the operating system.
	Hostname  func() (string, error)
	Addresses func() ([]net.Addr, error)
	// Command runs a program; may be nil.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	HTTP    *http.Client
	// Metadata is where AWS tells a machine about itself, without a final slash;
	// empty means http://169.254.169.254.
	Metadata string
}

// Detect is an Agent.Detect.
func (p Probe) Detect(ctx context.Context, boot *model.BootConfig, c *model.NodeupConfig) (node.Host, error) {
	h := node.Host{Arch: assets.Arch(p.Arch), CgroupV1: !p.exists("/sys/fs/cgroup/cgroup.controllers"), Contained: p.exists("/run/systemd/container")}
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
	h.Admin = p.admin()
	if r := c.ContainerdConfig; r != nil && r.SkipInstall {
		if h.Containerd, err = p.containerd(ctx); err != nil {
			return h, err
		}
	}
	if api.CloudProviderID(boot.CloudProvider) == api.CloudAWS {
		return h, p.aws(ctx, &h, c)
	}
	return h, nil
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

// admin finds the account that the distribution's images have for those who log in.
func (p Probe) admin() node.Account {
	text, _ := os.ReadFile(filepath.Join(p.Root, "/etc/passwd")) // without one there is root alone
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 7 && slices.Contains([]string{"ubuntu", "admin", "ec2-user"}, f[0]) {
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

// aws asks the instance's metadata service, version 2.
func (p Probe) aws(ctx context.Context, h *node.Host, c *model.NodeupConfig) error {
	base := p.Metadata
	if base == "" {
		base = "http://169.254.169.254"
	}
	token, err := p.ask(ctx, http.MethodPut, base+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "300")
	if err != nil {
		return fmt.Errorf("ask the cloud who this machine is: %w", err)
	}
	get := func(key string) string {
		if err != nil {
			return ""
		}
		var v string
		if v, err = p.ask(ctx, http.MethodGet, base+"/latest/meta-data/"+key, "X-aws-ec2-metadata-token", token); fault.Is(err, fault.Gone) {
			v, err = "", nil
		}
		return v
	}
	id, hostname, zone := get("instance-id"), get("local-hostname"), get("placement/availability-zone")
	names := []string{id, hostname, get("local-ipv4"), get("public-ipv4"), get("ipv6")}
	if len(c.WarmPoolImages) > 0 && c.ControlPlaneConfig == nil {
		h.Warming = strings.HasPrefix(get("autoscaling/target-lifecycle-state"), "Warmed:")
	}
	if err != nil {
		return fmt.Errorf("ask the cloud who this machine is: %w", err)
	}
	if id == "" || zone == "" {
		return errors.New("ask the cloud who this machine is: it tells no instance or no zone")
	}
	h.NodeName, h.OverrideName, h.ProviderID = id, true, "aws:///"+zone+"/"+id
	if c.UseIPBasedNodeNames != nil && *c.UseIPBasedNodeNames {
		h.NodeName = hostname
	}
	slices.Sort(names)
	h.Names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	return nil
}

func (p Probe) ask(ctx context.Context, method, url, header, value string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set(header, value)
	res, err := p.HTTP.Do(req)
	if err != nil {
		return "", fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.Gone, "%s is not there", url)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.NotYet, "%s answers %s", url, res.Status)
	}
	return string(text), nil
}

package assets

import (
	"fmt"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
)

// Versions of what is installed on a machine in addition to Kubernetes.
const (
	crictlVersion  = "1.35.0"
	nerdctlVersion = "2.2.0"
	cniNewest      = "1.9.1"
)

// Machine determines which files a machine fetches.
type Machine struct {
	// Kubernetes is a version, with or without a leading v, or the URL of a folder of binaries that
	// ends in a version.
	Kubernetes string
	// CredentialProvider is the URL of the program that logs the kubelet in to the cloud's
	// registry, with %s for the architecture; "" if there is none.
	CredentialProvider string
	// NewestPlugins selects the newest reference plugins, for any Kubernetes version.
	NewestPlugins bool
	// CNIPlugins selects the reference plugins of the Container Network Interface.
	CNIPlugins bool
	// PluginsURL is an archive of the plugins that replaces the published one; may be "".
	PluginsURL string
	Containerd *api.ContainerdConfig
}

// Files lists what the machine fetches, in the order of the node configuration.
func (m Machine) Files(arch download.Arch, mirrors Mirrors, h Hashes) ([]download.File, error) {
	h = h.withPublished()
	minor, err := minorOf(m.Kubernetes)
	if err != nil {
		return nil, err
	}
	var out []download.File
	add := func(public, known string) {
		f := download.File{Public: public, URLs: []string{mirrors.URL(public)}, SHA256: known}
		if known == "" {
			f.SHA256, _ = h(public)
		}
		out = append(out, f)
	}
	base := binaries(m.Kubernetes)
	add(base+"/bin/linux/"+string(arch)+"/kubelet", "")
	add(base+"/bin/linux/"+string(arch)+"/kubectl", "")
	if p := m.CredentialProvider; p != "" {
		add(fmt.Sprintf(p, arch), "")
	}
	switch {
	case m.CNIPlugins && m.PluginsURL != "":
		add(m.PluginsURL, "")
	case m.CNIPlugins:
		v := cniVersion(minor)
		if m.NewestPlugins {
			v = cniNewest
		}
		add(fmt.Sprintf("https://github.com/containernetworking/plugins/releases/download/v%s/cni-plugins-linux-%s-v%[1]s.tgz", v, arch), "")
	}
	if c := m.Containerd; c != nil {
		m.runtime(c, arch, add)
	}
	return out, nil
}

// runtime adds the files of the container runtime.
func (m Machine) runtime(c *api.ContainerdConfig, arch download.Arch, add func(public, known string)) {
	if !c.SkipInstall {
		u, sum := override(c.Packages, arch)
		if v := text(c.Version); u == "" && v != "" {
			u = fmt.Sprintf("https://github.com/containerd/containerd/releases/download/v%s/containerd-%[1]s-linux-%s.tar.gz", v, arch)
		}
		if u != "" {
			add(u, sum)
		}
		if c.Runc != nil {
			u, sum := override(c.Runc.Packages, arch)
			if v := text(c.Runc.Version); u == "" && v != "" {
				u = fmt.Sprintf("https://github.com/opencontainers/runc/releases/download/v%s/runc.%s", v, arch)
			}
			if u != "" {
				add(u, sum)
			}
		}
	}
	if c.InstallNerdCtl {
		add(fmt.Sprintf("https://github.com/containerd/nerdctl/releases/download/v%s/nerdctl-%[1]s-linux-%s.tar.gz", nerdctlVersion, arch), "")
	}
	if c.InstallCriCtl {
		add(fmt.Sprintf("https://github.com/kubernetes-sigs/cri-tools/releases/download/v%s/crictl-v%[1]s-linux-%s.tar.gz", crictlVersion, arch), "")
	}
}

// override returns the user's place and digest for an archive.
func override(p *api.PackagesConfig, arch download.Arch) (u, sum string) {
	switch {
	case p == nil:
		return "", ""
	case arch == download.ARM64:
		return text(p.URLArm64), text(p.HashArm64)
	}
	return text(p.URLAmd64), text(p.HashAmd64)
}

// binaries returns the folder that contains Kubernetes' own files.
func binaries(kubernetes string) string {
	if strings.Contains(kubernetes, "://") {
		return strings.TrimSuffix(kubernetes, "/")
	}
	return "https://dl.k8s.io/release/v" + strings.TrimPrefix(kubernetes, "v")
}

// minorOf returns the minor version of a Kubernetes version 1.x.
func minorOf(kubernetes string) (int, error) {
	v := strings.TrimPrefix(baseName(kubernetes), "v")
	parts := strings.SplitN(v, ".", 3)
	minor := -1
	if len(parts) > 1 && parts[0] == "1" {
		if n, err := strconv.Atoi(parts[1]); err == nil {
			minor = n
		}
	}
	if minor < 0 {
		return 0, fmt.Errorf("the Kubernetes version %q is not of the form 1.<minor>", kubernetes)
	}
	return minor, nil
}

// cniVersion returns the version of the reference plugins for a minor version of Kubernetes.
func cniVersion(minor int) string {
	for _, c := range []struct {
		since   int
		version string
	}{{36, cniNewest}, {35, "1.8.0"}, {34, "1.7.1"}} {
		if minor >= c.since {
			return c.version
		}
	}
	return "1.6.2"
}

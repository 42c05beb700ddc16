// Package node computes the desired state of a machine of a cluster: a graph of the kinds of
// package host, computed from the machine's configuration, its boot configuration, its detected
// properties, and, on the control plane, key material.
//
// It is pure: no clock, no network, no file. It must not know how resources are observed or
// applied, nor where its inputs come from.
package node

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
)

// Input is everything from which a machine's resources are computed; it is not modified.
type Input struct {
	Config *nodeconfig.Config
	Boot   *nodeconfig.Boot
	Host   Host
	// Keysets are those that the machine may read: all on the control plane, none on workers.
	Keysets map[string]*pki.Keyset
	// Secrets are the secrets of the store that the machine may read, by name.
	Secrets map[string]pki.Secret
	// PlatformSecrets are those with which a control plane uses its platform, by name.
	PlatformSecrets map[string]pki.Secret
	// Etcd holds the manifests of etcd's managers by <etcd cluster>-<group>, Channels the
	// manifest of the component that applies add-ons, and Static other manifests by their
	// key in the configuration.
	Etcd     map[string]string
	Channels string
	Static   map[string]string
}

// Host holds the detected properties of a machine.
type Host struct {
	// Traits are those of the machine's platform.
	Traits onmachine.Traits `json:"-"`
	// Distro is the ID of /etc/os-release, and Release its VERSION_ID.
	Distro, Release string
	// Like is the distribution's family: debian or rhel.
	Like string
	Arch download.Arch
	// Name is the machine's hostname, NodeName the name of its Node.
	Name     string
	NodeName string
	// OverrideName is set if the kubelet must be given its name.
	OverrideName bool
	// Names are all names and addresses of the machine, for its certificates.
	Names []string
	// Address is the machine's own address in the cloud's network; empty if the cloud does not report it.
	Address string
	// Addresses are the addresses of its interfaces, sorted.
	Addresses []string
	// Interface is the interface of the machine's first default route; empty if it has none.
	Interface string
	// ProviderID is the cloud's identifier of the machine; empty where the cloud controller looks it up.
	ProviderID string
	// MaxPods is the number of pods that can get an address, where each gets one from the cloud; 0 if
	// addresses do not limit it.
	MaxPods int
	// CgroupV1 is set if the machine uses cgroups v1.
	CgroupV1 bool
	// Contained is set if the machine shares its host's kernel and so may not change all of its settings.
	Contained bool
	// LacksLogind is set if systemd-logind does not run; it is detected only in containers.
	LacksLogind bool
	// LacksModules is set if one of KernelModules is not installed.
	LacksModules bool
	// NVIDIA is set if the machine has an NVIDIA graphics processor.
	NVIDIA bool
	// Containerd is the version of the image's own containerd, if the machine uses it; "" otherwise.
	Containerd string
	// Resolved is set if the real resolv.conf is the one that systemd-resolved maintains.
	Resolved bool
	// Warming is set if the machine is only being prepared for a warm pool, which it leaves later.
	Warming bool
	// Admin is the account that people log in with; zero means root.
	Admin Account
	// APIAddresses are the addresses of the API, where the cluster publishes no name and the boot
	// configuration has no addresses.
	APIAddresses []string
	// ScalingGroup is the cloud's group that waits for a report that the machine has started;
	// empty if none does.
	ScalingGroup string
	// Authorities are the CA certificates in PEM that the machine trusts; empty if it has none.
	Authorities string `json:"-"`
	// Warnings describe what could not be detected, and the consequences.
	Warnings []string
}

// Account is a user account of a machine.
type Account struct {
	Home string
	ID   int
}

// Build returns the machine's resources.
func Build(in Input) (*graph.Graph, error) {
	if in.Host.Like != "debian" && in.Host.Like != "rhel" && in.Host.Image() == "" {
		return nil, fmt.Errorf("the distribution %s %s is not supported; use an image of Debian, Ubuntu, a relative of Red Hat, Flatcar or Container-Optimized OS", in.Host.Distro, in.Host.Release)
	}
	in, _ = adaptToContainer(in)
	b := &builder{Input: in, places: in.Host.places(), graph: &graph.Graph{}}
	for _, step := range []struct {
		what string
		do   func() error
		on   bool
	}{
		{"packages", b.packageSet, in.Host.Image() == ""},
		{"programs' folders", b.executable, true},
		{"file systems", b.volumes, true},
		{"folders", b.directories, true},
		{"names", b.hosts, true},
		{"kernel", b.kernel, true},
		{"clock, updates and logs", b.system, true},
		{"files and hooks", b.extras, true},
		{"fetched files", b.fetchedFiles, true},
		{"hooks", func() error { return b.hooks(true) }, true},
		{"processors", b.accelerators, true},
		{"sandbox", b.sandbox, true},
		{"containerd", b.containerd, true},
		{"trust", b.trust, true},
		{"pod network", b.podNetwork, true},
		{"API server", b.apiServer, b.hasAPIServer()},
		{"control plane", b.controlPlane, b.isControlPlane()},
		{"kube-proxy", b.proxy, in.Config.KubeProxy != nil},
		{"hooks", func() error { return b.hooks(false) }, true},
		{"imported images", b.importImages, true},
		{"kubelet", b.kubelet, true},
		{"images", b.images, true},
	} {
		if !step.on {
			continue
		}
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("model the machine's %s: %w", step.what, err)
		}
	}
	return b.graph, nil
}

type builder struct {
	Input
	places places
	graph  *graph.Graph
	// first are the resources that everything except packages depends on.
	first []resource.Address
	// filesWritten are all files and certificates. The kubelet depends on them: as soon as
	// its node is ready, kops-controller gives the machine nothing more.
	filesWritten []resource.Address
	// programs are the fetched files that services depend on. runtimePrograms are
	// those that containerd needs, and the hooks before it.
	programs, runtimePrograms []resource.Address
	packages                  []resource.Address
	userFiles                 []resource.Address // the user's files
	// mounts are file systems. Everything except packages depends on them: files written to a
	// folder before another file system is mounted on it would be hidden.
	mounts []resource.Address
	users  []resource.Address // the last account
	// runtime is containerd's unit, and node the other resources that the kubelet depends on;
	// names is among them, because pods on the host network get a copy of its file when they
	// start.
	runtime []resource.Address
	node    []resource.Address
}

func (b *builder) hasAPIServer() bool   { return b.Config.APIServerConfig != nil }
func (b *builder) isControlPlane() bool { return b.Config.ControlPlaneConfig != nil }

// add adds a resource and returns its address.
func add[T any](b *builder, k *resource.Kind[T, *host.Machine], name string, want T, after ...resource.Address) (resource.Address, error) {
	n := k.New(name, want)
	n.After = after
	if k.Name != host.Mounts.Name {
		n.After = slices.Concat(after, b.first, b.mounts)
	}
	if k.Name == host.Files.Name || k.Name == host.Certificates.Name {
		b.filesWritten = append(b.filesWritten, n.Address)
	}
	return n.Address, b.graph.Add(n)
}

// file adds a world-readable file owned by root.
func (b *builder) file(path, text string) error { return b.fileWith(path, text, "0644", 0) }

// ownerOnlyFile adds a file that only its owner may read, but whose content plans may show.
func (b *builder) ownerOnlyFile(path, text string, user int) error {
	return b.fileWith(path, text, "0600", user)
}

// staticPod adds the manifest of a static pod. Only root may read it: it describes
// the control plane's setup.
func (b *builder) staticPod(name string, content resource.Value, after ...resource.Address) error {
	return b.fileOf(manifests+"/"+name+".manifest", resource.Text(content), "0600", 0, after...)
}

func (b *builder) fileWith(path, text, mode string, user int) error {
	return b.fileOf(path, resource.Text(resource.Lit(text)), mode, user)
}

// secret adds a file that only its owner may read and whose content is never shown.
func (b *builder) secret(path, text string, user int) error {
	return b.fileOf(path, resource.SecretText(text), "0600", user)
}

func (b *builder) fileOf(path string, content resource.Content, mode string, user int, after ...resource.Address) error {
	_, err := add(b, &host.Files, path, host.File{Path: path, Content: content, Mode: mode, Owner: user, Group: user}, after...)
	return err
}

func (b *builder) directory(path, mode string, user int) error {
	_, err := add(b, &host.Directories, path, host.Directory{Path: path, Mode: mode, Owner: user, Group: user})
	return err
}

// unit adds an enabled unit of ours. reads are texts that the service reads at startup.
func (b *builder) unit(name, content string, after []resource.Address, reads ...string) (resource.Address, error) {
	if len(reads) > 0 {
		content = host.WithDigest(content, reads...)
	}
	return add(b, &host.Units, name, host.Unit{Name: name, Content: resource.Text(resource.Lit(content)), On: true, Current: true}, after...)
}

// validity spreads the expiry of certificates over a month, so that not all machines renew at once.
func (b *builder) validity() time.Duration {
	h := fnv.New32()
	h.Write([]byte(strings.Join(b.Host.Addresses, ""))) //nolint:errcheck // writing to a hash never fails
	return (455*24 + time.Duration(h.Sum32()%(30*24))) * time.Hour
}

// bundle returns the certificates of a keyset that the machine trusts.
func (b *builder) bundle(keyset string) (string, error) {
	if text := b.Config.CAs[keyset]; text != "" {
		return text, nil
	}
	if c := b.Boot.ConfigServer; c != nil && keyset == pki.KubernetesCA && c.CACertificates != "" {
		return c.CACertificates, nil
	}
	return "", fmt.Errorf("the configuration has no certificates of %s", keyset)
}

// key returns the private key with which a keyset signs.
func (b *builder) key(keyset string) (string, error) {
	k := b.Keysets[keyset]
	if k == nil {
		return "", fmt.Errorf("the keyset %s was not read", keyset)
	}
	text, err := k.Signer().Key.PEM()
	return string(text), err
}

// internal returns a name in the cluster's internal zone.
func (b *builder) internal(name string) string { return name + hostnames.Suffix(b.Config.ClusterName) }

// server returns the address at which the machine's components reach the API.
func (b *builder) server() string {
	if !b.hasAPIServer() {
		return "https://" + b.internal("api")
	}
	if p := b.securePort(); p != ports.API {
		return fmt.Sprintf("https://127.0.0.1:%d", p)
	}
	return "https://127.0.0.1"
}

func (b *builder) securePort() int32 {
	if c := b.Config.APIServerConfig; c != nil && c.KubeAPIServer != nil && c.KubeAPIServer.SecurePort != 0 {
		return c.KubeAPIServer.SecurePort
	}
	return ports.API
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func isTrue(b *bool) bool { return b != nil && *b }

// minor returns the minor version of Kubernetes.
func (b *builder) minor() int {
	major, rest, _ := strings.Cut(strings.TrimPrefix(b.Config.KubernetesVersion, "v"), ".")
	n := 0
	for _, r := range rest {
		if r < '0' || r > '9' {
			break
		}
		n = n*10 + int(r-'0')
	}
	if major != "1" {
		return 0
	}
	return n
}

// unique sorts strings and drops duplicates and empty ones.
func unique(in []string) []string {
	out := slices.DeleteFunc(slices.Clone(in), func(s string) bool { return strings.TrimSpace(s) == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

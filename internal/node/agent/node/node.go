// Package node computes the desired state of a machine of a cluster: from its configuration, its
// boot configuration, the properties of the machine itself, and, on the control plane, key
// material, follows a graph of the kinds of package host.
//
// It is pure: no clock, no network, no file. It must not know how resources are
// observed or made, nor where its inputs come from.
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
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
)

// Input is what a machine's resources follow from; nothing in it is changed.
type Input struct {
	Config *nodeconfig.Config
	Boot   *nodeconfig.Boot
	Host   Host
	// Keysets are those that the machine may read: all on the control plane, none on workers.
	Keysets map[string]*pki.Keyset
	// Secrets are the secrets of the store that the machine may read, by name.
	Secrets map[string]pki.Secret
	// Etcd are the manifests of etcd's managers by <etcd cluster>-<group>, Channels
	// the one that applies add-ons, and Static others, by their key in the configuration.
	Etcd     map[string]string
	Channels string
	Static   map[string]string
}

// Host is what is known of a machine.
type Host struct {
	// Traits are the traits of its platform.
	Traits onmachine.Traits `json:"-"`
	// Distro is the ID of /etc/os-release, and Release its VERSION_ID.
	Distro, Release string
	// Like is the family: debian or rhel.
	Like string
	Arch download.Arch
	// Name is what the machine calls itself, NodeName what its Node is called.
	Name     string
	NodeName string
	// OverrideName says that the kubelet must be told its name.
	OverrideName bool
	// Names are all names and addresses of the machine, in its certificates.
	Names []string
	// Address is the machine's own in the cloud's network; empty: the cloud does not tell.
	Address string
	// Addresses are the addresses of its interfaces, sorted.
	Addresses []string
	// Interface is the interface of the machine's first default route; empty: it has none.
	Interface string
	// ProviderID is what the cloud calls the machine; empty where the cloud's controller finds it.
	ProviderID string
	// MaxPods is how many pods have an address where each gets one of the cloud's; 0: not limited by it.
	MaxPods int
	// CgroupV1 says that the kernel's old control groups are in use.
	CgroupV1 bool
	// Contained says that the machine shares its kernel, and so may not change all of its settings.
	Contained bool
	// LacksLogind says that no systemd-logind runs; it is found out in containers only.
	LacksLogind bool
	// LacksModules says that a module of KernelModules is not installed.
	LacksModules bool
	// NVIDIA says that the machine has a graphics processor of NVIDIA's.
	NVIDIA bool
	// Containerd is the version of the image's own containerd, where the machine uses it; "" elsewhere.
	Containerd string
	// Resolved says that the resolver's own file is where systemd-resolved keeps it.
	Resolved bool
	// Warming says that the machine is only prepared, for a pool that it leaves later.
	Warming bool
	// Admin is the account of those who log in; zero: root.
	Admin Account
	// APIAddresses are where the API is, where no name of the cluster's is published and the boot configuration has no addresses.
	APIAddresses []string
	// ScalingGroup is the cloud's group that waits for a report that the machine has started;
	// empty: none does.
	ScalingGroup string
	// Authorities are certificates in PEM that the machine trusts; empty: it has none.
	Authorities string `json:"-"`
	// Warnings are what was not found out, and what follows.
	Warnings []string
}

// Account is a user of a machine.
type Account struct {
	Home string
	ID   int
}

// Build returns the machine's resources.
func Build(in Input) (*graph.Graph, error) {
	if in.Host.Like != "debian" && in.Host.Like != "rhel" && in.Host.Image() == "" {
		return nil, fmt.Errorf("the distribution %s %s is not supported; use an image of Debian, Ubuntu, a relative of Red Hat, Flatcar or Container-Optimized OS", in.Host.Distro, in.Host.Release)
	}
	in, _ = contained(in)
	b := &builder{Input: in, at: in.Host.places(), graph: &graph.Graph{}}
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
		{"fetched files", b.fetched, true},
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
		{"imported images", b.imported, true},
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
	at    places
	graph *graph.Graph
	// first is what all but packages follow.
	first []resource.Address
	// written are all files and certificates. The kubelet follows them: as soon as
	// its node is ready, kops-controller gives the machine nothing any more.
	written []resource.Address
	// programs are what services follow: fetched files in their places.
	// runtimePrograms are those that containerd's needs, and the hooks before it.
	programs, runtimePrograms []resource.Address
	packages                  []resource.Address
	own                       []resource.Address // the user's files
	// mounts are file systems. Everything except packages follows them: files written below a
	// folder before another file system is mounted on it are lost.
	mounts []resource.Address
	users  []resource.Address // the last account
	// runtime is containerd's unit, and node the other resources that the kubelet follows; names
	// is among them, because pods on the machine's network get a copy of its file when they start.
	runtime []resource.Address
	node    []resource.Address
}

func (b *builder) hasAPIServer() bool   { return b.Config.APIServerConfig != nil }
func (b *builder) isControlPlane() bool { return b.Config.ControlPlaneConfig != nil }

// add adds a node and returns its address.
func add[T any](b *builder, k *resource.Kind[T, *host.Machine], name string, want T, after ...resource.Address) (resource.Address, error) {
	n := k.New(name, want)
	n.After = after
	if k.Name != host.Mounts.Name {
		n.After = slices.Concat(after, b.first, b.mounts)
	}
	if k.Name == host.Files.Name || k.Name == host.Certificates.Name {
		b.written = append(b.written, n.Address)
	}
	return n.Address, b.graph.Add(n)
}

// file adds a file that everybody may read, of root's.
func (b *builder) file(path, text string) error { return b.fileWith(path, text, "0644", 0) }

// guarded adds a file that only its owner may read, and that is shown all the same.
func (b *builder) guarded(path, text string, user int) error {
	return b.fileWith(path, text, "0600", user)
}

// staticPod adds the manifest of a pod that the kubelet runs by itself. Only root
// may read it: it tells how the control plane is set up.
func (b *builder) staticPod(name string, content resource.Value, after ...resource.Address) error {
	return b.fileOf(manifests+"/"+name+".manifest", resource.Text(content), "0600", 0, after...)
}

func (b *builder) fileWith(path, text, mode string, user int) error {
	return b.fileOf(path, resource.Text(resource.Lit(text)), mode, user)
}

// secret adds a file that only its owner may read and that is never shown.
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

// unit adds a unit of ours that is on. reads are texts that the service reads at its start.
func (b *builder) unit(name, content string, after []resource.Address, reads ...string) (resource.Address, error) {
	if len(reads) > 0 {
		content = host.WithDigest(content, reads...)
	}
	return add(b, &host.Units, name, host.Unit{Name: name, Content: resource.Text(resource.Lit(content)), On: true, Current: true}, after...)
}

// validity spreads the ends of certificates over a month, so that not all machines renew at once.
func (b *builder) validity() time.Duration {
	h := fnv.New32()
	h.Write([]byte(strings.Join(b.Host.Addresses, ""))) //nolint:errcheck // a hash takes everything
	return (455*24 + time.Duration(h.Sum32()%(30*24))) * time.Hour
}

// bundle is the certificates of a keyset that the machine trusts.
func (b *builder) bundle(keyset string) (string, error) {
	if text := b.Config.CAs[keyset]; text != "" {
		return text, nil
	}
	if c := b.Boot.ConfigServer; c != nil && keyset == pki.KubernetesCA && c.CACertificates != "" {
		return c.CACertificates, nil
	}
	return "", fmt.Errorf("the configuration has no certificates of %s", keyset)
}

// key is the private key with which a keyset signs.
func (b *builder) key(keyset string) (string, error) {
	k := b.Keysets[keyset]
	if k == nil {
		return "", fmt.Errorf("the keyset %s was not read", keyset)
	}
	text, err := k.Signer().Key.PEM()
	return string(text), err
}

// internal is a name of the cluster's own zone.
func (b *builder) internal(name string) string { return name + hostnames.Suffix(b.Config.ClusterName) }

// server is where components of the machine reach the API.
func (b *builder) server() string {
	if !b.hasAPIServer() {
		return "https://" + b.internal("api")
	}
	if p := b.securePort(); p != 443 {
		return fmt.Sprintf("https://127.0.0.1:%d", p)
	}
	return "https://127.0.0.1"
}

func (b *builder) securePort() int32 {
	if c := b.Config.APIServerConfig; c != nil && c.KubeAPIServer != nil && c.KubeAPIServer.SecurePort != 0 {
		return c.KubeAPIServer.SecurePort
	}
	return 443
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func isTrue(b *bool) bool { return b != nil && *b }

// minor is the minor version of Kubernetes.
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

// unique sorts texts and drops doubles and empty ones.
func unique(in []string) []string {
	out := slices.DeleteFunc(slices.Clone(in), func(s string) bool { return strings.TrimSpace(s) == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

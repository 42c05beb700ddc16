// Package model says which files a completed cluster keeps in its store, the
// same on every platform: the configuration of its machines, the manifests of
// its control plane, its add-ons and its key material. It also writes the
// script with which a machine starts.
//
// It is pure, and must not know any cloud's resources, nor how files are stored.
package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Input is what the files of a cluster follow from; nothing in it is changed.
type Input struct {
	// Cluster and Groups are completed.
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Traits are the traits of the cluster's platform.
	Traits *traits.Traits
	// NodeVersion is the Kubernetes version of machines without an API server;
	// empty means the cluster's.
	NodeVersion string
	// Version is kops' own, which machines install.
	Version string
	// Region is where the cluster is; empty where the platform has none.
	Region string
	// Facts give digests of files and images; may be nil.
	Facts *facts.Facts
	// Unfound says why the digest of a file could not be found, by its public URL; may be nil.
	Unfound map[string]string
	// AllowUnverified lets machines install files whose digests are not known.
	AllowUnverified bool
	// Signed are the digests of the files that the signed index of the cluster's own names;
	// nil: it need not be signed, or cannot be asked.
	Signed map[string]bool
	// Keysets are all that the cluster needs, by name.
	Keysets map[string]*pki.Keyset
	// Tokens are the random secrets that must be made, by name.
	Tokens map[string]pki.Secret
	// EncryptionConfig is the secret of that name, zero when there is none.
	EncryptionConfig pki.Secret
	// DockerConfig is the secret of that name, zero when there is none.
	DockerConfig pki.Secret
	// Objects are Kubernetes objects of the user's, one document each.
	Objects []map[string]any
	// Addons is the catalogue of add-ons; nil: this program's own.
	Addons *catalogue.Catalogue
	// Own says what images of kops' own programs are called, and which files of them
	// machines fetch from the cluster's store.
	Own assets.Own
	// Deliver says that files of kops' own programs are brought into the cluster's store.
	Deliver bool
	// Arch is the only architecture of machines; empty: they have any that kops knows.
	Arch download.Arch
	// Buckets are the buckets of the stores that can hold files.
	Buckets managedfile.Buckets
	// Environment are variables of the caller's that machines of the control
	// plane need to reach the store. Those that neither all platforms nor its own name are not used.
	Environment map[string]string
	// PublicDiscovery makes the documents of the service account issuer readable
	// to everybody by themselves, where the bucket does not.
	PublicDiscovery bool

	shared *shared // as Shared makes it
}

// shared is what follows from an input and is needed in more than one place.
type shared struct {
	addons *addons.Result
	// configs are the configurations of the groups' machines, by the group's name.
	configs map[string][]byte
}

// Shared returns the input with what Build and calls of UserData have in common
// made once; without it, each of them makes it for itself.
func (in Input) Shared() (Input, error) {
	if in.shared != nil {
		return in, nil
	}
	for _, n := range pki.KeysetNames(in.Cluster) { // which saves the rest from asking
		if in.Keysets[n] == nil {
			return in, fmt.Errorf("the keyset %s is missing", n)
		}
	}
	a, err := addons.Build(addons.Input{Cluster: in.Cluster, Groups: in.Groups, Traits: in.Traits, Version: in.Version, Region: in.Region, Facts: in.Facts, Objects: in.Objects, Addons: in.Addons, Own: in.Own, Environment: in.storeAccess()})
	if err != nil {
		return in, fmt.Errorf("model the add-ons: %w", err)
	}
	in.shared = &shared{addons: a, configs: map[string][]byte{}}
	for _, g := range in.Groups {
		if !configured(g) {
			continue
		}
		if in.shared.configs[g.Name], err = in.nodeConfig(g); err != nil {
			return in, fmt.Errorf("model the node configuration: group %s: %w", g.Name, err)
		}
	}
	return in, nil
}

// AddonImages are what the pods of the add-ons run, of an input that is Shared.
func (in Input) AddonImages() []addons.Image {
	var out []addons.Image
	for _, f := range in.shared.addons.Files {
		out = append(out, f.Images...)
	}
	return out
}

// Build returns the cluster's files, and warnings about what it will lack.
func Build(in Input) ([]resource.Node, diag.List, error) {
	in, err := in.Shared()
	if err != nil {
		return nil, nil, err
	}
	b := &builder{Input: in, base: in.Buckets.Location(in.Cluster.Spec.ConfigStore.Base)}
	if err := b.checked(); err != nil {
		return nil, nil, err
	}
	b.findings = append(b.findings, b.withoutStoreKeys()...)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"key material", b.keyMaterial},
		{"completed spec", b.completedSpec},
		{"add-ons", b.addonFiles},
		{"etcd", b.etcd},
		{"manifests of the control plane", b.staticManifests},
		{"node configuration", b.nodeConfigs},
		{"programs of machines", b.programs},
		{"discovery documents", b.discovery},
	} {
		if err := step.do(); err != nil {
			return nil, nil, fmt.Errorf("model the %s: %w", step.what, err)
		}
	}
	return b.nodes, b.findings, nil
}

// builder collects the files of one cluster.
type builder struct {
	Input
	base     managedfile.Location
	nodes    []resource.Node
	keysets  []resource.Address
	findings diag.List
}

// file declares a file below the cluster's folder.
func (b *builder) file(name, key string, content []byte) {
	b.nodes = append(b.nodes, b.base.Node(name, key, managedfile.Text(string(content)), false))
}

// trusting declares a file that holds certificates. It follows the keysets, so
// that nothing ever trusts a key that was lost on the way to the store.
func (b *builder) trusting(n resource.Node) {
	n.After = b.keysets
	b.nodes = append(b.nodes, n)
}

// url is the address of a key below the cluster's folder.
func (in Input) url(key string) string { return in.Cluster.Spec.ConfigStore.Base + "/" + key }

func (in Input) spec() *api.ClusterSpec { return &in.Cluster.Spec }

// keyMaterial declares keysets and random secrets. The authority comes last: where
// it is, the others are.
func (b *builder) keyMaterial() error {
	names := slices.AppendSeq(pki.TokenNames(), maps.Keys(b.Tokens))
	slices.Sort(names)
	var secrets []resource.Address
	for _, n := range slices.Compact(names) {
		content := resource.Content{} // it exists, and is kept whatever it holds
		if token, ok := b.Tokens[n]; ok {
			text, err := pki.EncodeSecret(token)
			if err != nil {
				return err
			}
			content = resource.SecretText(string(text))
		}
		node := managedfile.SecretNode(n, content)
		b.nodes, secrets = append(b.nodes, node), append(secrets, node.Address)
	}
	for _, n := range pki.KeysetNames(b.Cluster) {
		o, err := b.Keysets[n].ToAPI()
		if err != nil {
			return err
		}
		text, err := compat.Encode(api.V1Alpha2, o)
		if err != nil {
			return err
		}
		node := managedfile.KeysetNode(n, resource.SecretText(string(text)))
		if n == pki.KubernetesCA {
			node.After = secrets
		}
		b.nodes, b.keysets = append(b.nodes, node), append(b.keysets, node.Address)
	}
	return nil
}

func (b *builder) completedSpec() error {
	spec := *b.Cluster
	spec.Generation = 0 // which every edit counts up, also one that changes nothing
	text, err := compat.Encode(api.V1Alpha2, &spec)
	if err != nil {
		return err
	}
	b.file(layout.Completed, layout.Completed, text)
	b.file(layout.Version, layout.Version, []byte(b.Version))
	return nil
}

func (b *builder) addonFiles() error {
	r := b.shared.addons
	b.findings = append(b.findings, r.Findings...)
	prefix := b.Cluster.Name + "-addons-"
	b.file(prefix+"bootstrap", layout.Channel, r.Channel)
	for _, f := range r.Files {
		name := prefix + f.Name
		if f.ID != "" {
			name += "-" + f.ID
		}
		b.file(name, layout.Addons+f.Path, f.Content)
	}
	return nil
}

func (b *builder) nodeConfigs() error {
	for _, g := range b.Groups {
		if !configured(g) {
			continue
		}
		text := b.shared.configs[g.Name]
		b.trusting(b.base.Node("nodeupconfig-"+g.Name, layout.NodeConfig(string(g.Spec.Role), g.Name), resource.Text(resource.Lit(string(text))), false))
	}
	return nil
}

// checked refuses files that machines could not check as they fetch them.
func (b *builder) checked() error {
	unhashed, err := b.unhashed()
	if err == nil {
		err = b.inBundle(unhashed)
	}
	if err != nil {
		return err
	}
	unsigned, err := b.unsigned()
	if err != nil {
		return err
	}
	b.findings = append(append(b.unchecked(unhashed), unsigned...), b.withoutPrograms()...)
	return b.findings.Err()
}

// Fetchable refuses what Build refuses of a completed cluster whose machines fetch
// from a bundle: files that it lacks. It needs no key material.
func Fetchable(in Input) error {
	unhashed, err := in.unhashed()
	if err != nil {
		return err
	}
	return in.inBundle(unhashed)
}

// inBundle refuses files of unknown digest where machines fetch from a bundle, as it
// tells the digests of all that it has.
func (in Input) inBundle(unhashed []download.File) error {
	folder := in.known().Bundle
	if len(unhashed) == 0 || folder == "" {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle %s lacks files that machines fetch: %s", folder, places(unhashed)),
		"kops bundle create --kubernetes-version "+in.spec().KubernetesVersion)
}

// configured reports whether the machines of a group have a configuration: a
// bastion that runs nothing at its start reads nothing.
func configured(g *api.InstanceGroup) bool {
	return !g.IsBastion() || len(g.Spec.AdditionalUserData) > 0
}

// Unhashed lists the files that machines fetch and whose digests neither the facts
// nor kops itself knows, sorted by their public places. A caller who learns them
// puts them into the facts, and into Unfound why others could not be learned.
func Unhashed(in Input) ([]download.File, error) { return in.unhashed() }

func (in Input) unhashed() ([]download.File, error) {
	found := map[string]download.File{}
	for _, g := range in.Groups {
		if !configured(g) {
			continue
		}
		for _, arch := range in.arches() {
			files, err := in.files(g, arch)
			if err != nil {
				return nil, err
			}
			if !in.blind() { // which is told by itself
				files = append(files, in.nodeup(g, arch))
			}
			for _, f := range files {
				if !download.IsSHA256(f.SHA256) {
					found[f.Public] = f
				}
			}
		}
	}
	var out []download.File
	for _, public := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[public])
	}
	return out, nil
}

// files are what the node configuration of a group's machines names.
func (in Input) files(g *api.InstanceGroup, arch download.Arch) ([]download.File, error) {
	files, err := in.machine(g).Files(arch, in.mirrors(), in.hashes())
	for i := range files {
		files[i] = in.allowed(files[i])
	}
	return files, err
}

// nodeup is what the boot scripts of a group's machines fetch.
func (in Input) nodeup(g *api.InstanceGroup, arch download.Arch) download.File {
	return in.allowed(in.Own.Nodeup(in.Version, arch, in.programs(g), in.mirrors(), in.hashes()))
}

// programs is where the machines of a group read kops' own programs: in the store, or
// from a control plane, where they have no right on the store.
func (in Input) programs(g *api.InstanceGroup) string {
	if g.HasAPIServer() {
		return in.spec().ConfigStore.Base
	}
	return strings.TrimSuffix(controllerAt(hostnames.Controller(in.Cluster.Name)), "/")
}

// allowed marks a file of unknown digest as one that the user takes so.
func (in Input) allowed(f download.File) download.File {
	if f.SHA256 == "" && in.AllowUnverified {
		f.SHA256 = download.Unverified
	}
	return f
}

func (in Input) mirrors() assets.Mirrors { return assets.MirrorsOf(in.spec().Assets) }

// known is what the cluster's platform says; never nil.
func (in Input) known() *facts.Cloud { return in.Facts.Of(string(in.Traits.Name)) }

// arches are the architectures that machines may have.
func (in Input) arches() []download.Arch {
	if a := cmp.Or(download.Arch(in.known().Architecture), in.Arch); a != "" {
		return []download.Arch{a}
	}
	return download.Arches()
}

func (in Input) hashes() assets.Hashes {
	if in.Facts == nil {
		return nil
	}
	return in.Facts.FileHash
}

// machine says which files the machines of a group fetch.
func (in Input) machine(g *api.InstanceGroup) assets.Machine {
	own := in.Traits.Model
	return assets.Machine{Kubernetes: in.kubernetes(g), CredentialProvider: own.CredentialProvider, NewestPlugins: own.NewestPlugins,
		CNIPlugins: in.needsCNIPlugins(), Containerd: g.Spec.Containerd}
}

// kubernetes is the version of Kubernetes on the machines of a group.
func (in Input) kubernetes(g *api.InstanceGroup) string {
	if in.NodeVersion != "" && !g.HasAPIServer() {
		return in.NodeVersion
	}
	return in.spec().KubernetesVersion
}

// needsCNIPlugins reports whether the pod network is made of the reference plugins.
func (in Input) needsCNIPlugins() bool {
	n := in.spec().Networking
	switch {
	case n.Calico != nil, n.AmazonVPC != nil:
		return false
	case n.Cilium != nil:
		return n.Cilium.ChainingMode == "portmap"
	}
	return true
}

// image returns what an image of a public registry is called for the cluster.
func (in Input) image(public string) string { return addons.Pull(public, in.spec().Assets, in.Facts) }

// ownImage is what the image of a program of kops' own is called for the cluster.
func (in Input) ownImage(program string) string {
	return in.image(in.Own.ImageName(program, in.Version))
}

// noDNS reports whether the cluster's names are published nowhere.
func (in Input) noDNS() bool { return in.spec().DNSType() == api.DNSNone }

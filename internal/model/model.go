// Package model determines which files a completed cluster keeps in its store, independent of the
// platform: the configuration of its machines, the manifests of its control plane, its add-ons and
// its key material. It also writes the script with which a machine boots.
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
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Input is what the files of a cluster are derived from; nothing in it is changed.
type Input struct {
	// Cluster and Groups must be completed.
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Traits are the traits of the cluster's platform.
	Traits *traits.Traits
	// NodeVersion is the Kubernetes version of machines without an API server;
	// empty means the cluster's.
	NodeVersion string
	// Version is kops' own version, which machines install.
	Version string
	// Region is the cluster's region; empty if the platform has none.
	Region string
	// Facts have digests of files and images; may be nil.
	Facts *facts.Facts
	// Unfound has, by public URL, why the digest of a file could not be found; may be nil.
	Unfound map[string]string
	// AllowUnverified lets machines install files whose digests are not known.
	AllowUnverified bool
	// Signed has the digests of the files in the signed index of the cluster's own files; nil if it
	// need not be signed, or could not be read.
	Signed map[string]bool
	// Keysets are all keysets that the cluster needs, by name.
	Keysets map[string]*pki.Keyset
	// Tokens are the random secrets that must be created, by name.
	Tokens map[string]pki.Secret
	// EncryptionConfig is the secret with that name, zero if there is none.
	EncryptionConfig pki.Secret
	// DockerConfig is the secret with that name, zero if there is none.
	DockerConfig pki.Secret
	// APINames are further names in the certificate of the API server, which it already has.
	APINames []string
	// Secrets are the secrets that manifests of add-ons may have, by name.
	Secrets map[string]pki.Secret
	// PlatformSecrets are those with which the programs of control planes use the platform, by name.
	PlatformSecrets map[string]pki.Secret
	// Objects are the user's Kubernetes objects, one document each.
	Objects []map[string]any
	// Addons is the catalogue of add-ons; nil means this program's own.
	Addons *catalogue.Catalogue
	// Own has the image names of kops' own programs, and which of their files machines fetch from
	// the cluster's store.
	Own assets.Own
	// Deliver means that files of kops' own programs are copied to the cluster's store.
	Deliver bool
	// Arch is the only architecture of machines; if empty, they may have any that kops knows.
	Arch download.Arch
	// PluginsURL is an archive of CNI plugins that replaces the published one; may be "".
	PluginsURL string
	// Buckets are the buckets of the stores that can hold files.
	Buckets managedfile.Buckets
	// OwnStoreKeys are the caller's keys of the S3 server in the environment. Only the user data of
	// control planes may have them, on platforms without another place.
	OwnStoreKeys storekeys.Pair
	// Environment are the caller's variables that control-plane machines need to reach the store.
	// Variables that are neither for all platforms nor for this one are ignored.
	Environment map[string]string
	// APIHost is where machines that kops does not create reach the API if the cluster's names are
	// not published; the zero value means that it is not determined here.
	APIHost resource.Value
	// PublicDiscovery makes the documents of the service account issuer readable by everyone
	// individually, if the bucket does not.
	PublicDiscovery bool

	shared *sharedState // set by Shared
}

// sharedState is what is derived from an input and is needed in more than one place.
type sharedState struct {
	addons *addons.Result
	// configs has the configurations of the groups' machines, by the group's name.
	configs map[string][]byte
}

// Shared returns the input with what Build and UserData have in common precomputed; without it,
// each call computes it.
func (in Input) Shared() (Input, error) {
	if in.shared != nil {
		return in, nil
	}
	for _, n := range pki.KeysetNames(in.Cluster) { // so that later code need not check
		if in.Keysets[n] == nil {
			return in, fmt.Errorf("the keyset %s is missing", n)
		}
	}
	a, err := in.builtAddons()
	if err != nil {
		return in, err
	}
	in.shared = &sharedState{addons: a, configs: map[string][]byte{}}
	for _, g := range in.Groups {
		if !isConfigured(g) {
			continue
		}
		if in.shared.configs[g.Name], err = in.nodeConfig(g); err != nil {
			return in, fmt.Errorf("model the node configuration: group %s: %w", g.Name, err)
		}
	}
	boots := func(f addons.File) bool { return f.Boots }
	if !slices.ContainsFunc(a.Files, boots) || in.noDNS() && in.APIHost.IsZero() {
		return in, nil
	}
	of := in.forAddons()
	of.UserData = func(g *api.InstanceGroup) (resource.Value, error) { // it depends on the images above
		c, err := in.userData(g, in.shared.configs[g.Name], []resource.Value{in.APIHost})
		return c.Value(), err
	}
	if in.shared.addons, err = addons.Build(of); err != nil {
		return in, fmt.Errorf("model the add-ons: %w", err)
	}
	return in, nil
}

func (in Input) forAddons() addons.Input {
	return addons.Input{Cluster: in.Cluster, Groups: in.Groups, Traits: in.Traits, Version: in.Version, Region: in.Region, Facts: in.Facts, Objects: in.Objects, Addons: in.Addons, Own: in.Own, Environment: in.storeAccess(), Secrets: in.Secrets}
}

// AddonImages returns the images that the add-ons' pods run, for an input that is Shared.
func (in Input) AddonImages() []addons.Image {
	var out []addons.Image
	for _, f := range in.shared.addons.Files {
		out = append(out, f.Images...)
	}
	return out
}

// Build returns the cluster's files, and warnings about what will be missing.
func Build(in Input) ([]resource.Node, diag.List, error) {
	in, err := in.Shared()
	if err != nil {
		return nil, nil, err
	}
	b := &builder{Input: in, base: in.Buckets.Location(in.Cluster.Spec.ConfigStore.Base)}
	if err := b.checkVerifiable(); err != nil {
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
		{"secrets of the platform", b.platformSecrets},
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

// trusting declares a file that contains certificates. It comes after the keysets, so that nothing
// ever trusts a key that was lost before it was stored.
func (b *builder) trusting(n resource.Node) {
	n.After = b.keysets
	b.nodes = append(b.nodes, n)
}

// url returns the address of a key below the cluster's folder.
func (in Input) url(key string) string { return in.Cluster.Spec.ConfigStore.Base + "/" + key }

func (in Input) spec() *api.ClusterSpec { return &in.Cluster.Spec }

// keyMaterial declares keysets and random secrets. The authority comes last: if it exists, the
// others do.
func (b *builder) keyMaterial() error {
	names := slices.AppendSeq(pki.TokenNames(), maps.Keys(b.Tokens))
	slices.Sort(names)
	var secrets []resource.Address
	for _, n := range slices.Compact(names) {
		content := resource.Content{} // it exists, and is kept whatever its content
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
	spec.Generation = 0 // every edit increments it, even one that changes nothing
	text, err := compat.Encode(api.V1Alpha2, &spec)
	if err != nil {
		return err
	}
	b.file(layout.Completed, layout.Completed, text)
	b.file(layout.Version, layout.Version, []byte(b.Version))
	return nil
}

// platformSecrets declares the file from which control planes get the secrets of the platform.
func (b *builder) platformSecrets() error {
	if len(b.PlatformSecrets) == 0 {
		return nil
	}
	text, err := pki.EncodeSecrets(b.PlatformSecrets)
	if err != nil {
		return err
	}
	b.file("platform-secrets", layout.PlatformSecrets, text)
	return nil
}

func (b *builder) addonFiles() error {
	r := b.shared.addons
	b.findings = append(b.findings, r.Findings...)
	prefix := b.Cluster.Name + "-addons-"
	b.nodes = append(b.nodes, b.base.Node(prefix+"bootstrap", layout.Channel, resource.Text(r.ChannelValue), false))
	for _, f := range r.Files {
		name := prefix + f.Name
		if f.ID != "" {
			name += "-" + f.ID
		}
		n := b.base.Node(name, layout.Addons+f.Path, managedfile.Content(f.Value), false)
		if f.Boots {
			b.trusting(n)
			continue
		}
		b.nodes = append(b.nodes, n)
	}
	return nil
}

func (b *builder) nodeConfigs() error {
	for _, g := range b.Groups {
		if !isConfigured(g) {
			continue
		}
		text := b.shared.configs[g.Name]
		b.trusting(b.base.Node("nodeupconfig-"+g.Name, layout.NodeConfig(string(g.Spec.Role), g.Name), resource.Text(resource.Lit(string(text))), false))
	}
	return nil
}

// checkVerifiable rejects files that machines could not verify when they fetch them.
func (b *builder) checkVerifiable() error {
	unhashed, err := b.filesWithoutHash()
	if err == nil {
		err = b.inBundle(unhashed)
	}
	if err != nil {
		return err
	}
	unsigned, err := b.checkSigned()
	if err != nil {
		return err
	}
	b.findings = append(append(b.checkDigests(unhashed), unsigned...), b.withoutPrograms()...)
	return b.findings.Err()
}

// Fetchable rejects what Build rejects for a completed cluster whose machines fetch from a bundle:
// files that are missing in it. It needs no key material.
func Fetchable(in Input) error {
	unhashed, err := in.filesWithoutHash()
	if err != nil {
		return err
	}
	return in.inBundle(unhashed)
}

// isConfigured reports whether the machines of a group have a configuration: a bastion that runs
// nothing at boot reads nothing.
func isConfigured(g *api.InstanceGroup) bool {
	return !g.IsBastion() || len(g.Spec.AdditionalUserData) > 0
}

// Unhashed lists the files that machines fetch and whose digests neither the facts nor kops itself
// knows, sorted by public URL. A caller who finds digests puts them into the facts, and the reasons
// for the others into Unfound.
func Unhashed(in Input) ([]download.File, error) { return in.filesWithoutHash() }

func (in Input) filesWithoutHash() ([]download.File, error) {
	found := map[string]download.File{}
	for _, g := range in.Groups {
		if !isConfigured(g) {
			continue
		}
		for _, arch := range in.arches() {
			files, err := in.files(g, arch)
			if err != nil {
				return nil, err
			}
			if !in.lacksNodeupDigest() { // it is reported separately
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

// files returns the files in the node configuration of a group's machines.
func (in Input) files(g *api.InstanceGroup, arch download.Arch) ([]download.File, error) {
	files, err := in.machine(g).Files(arch, in.mirrors(), in.hashes())
	for i := range files {
		files[i] = in.allowUnverified(files[i])
	}
	return files, err
}

// nodeup returns what the boot scripts of a group's machines fetch.
func (in Input) nodeup(g *api.InstanceGroup, arch download.Arch) download.File {
	return in.allowUnverified(in.Own.Nodeup(in.Version, arch, in.programs(g), in.mirrors(), in.hashes()))
}

// programs returns where the machines of a group read kops' own programs: in the store, or from a
// control plane, if they have no access to the store.
func (in Input) programs(g *api.InstanceGroup) string {
	if g.HasAPIServer() {
		return in.spec().ConfigStore.Base
	}
	return strings.TrimSuffix(controllerAt(hostnames.Controller(in.Cluster.Name)), "/")
}

// allowUnverified marks a file with an unknown digest as one that the user accepts.
func (in Input) allowUnverified(f download.File) download.File {
	if f.SHA256 == "" && in.AllowUnverified {
		f.SHA256 = download.Unverified
	}
	return f
}

func (in Input) mirrors() assets.Mirrors { return assets.MirrorsOf(in.spec().Assets) }

// cloudFacts returns the facts of the cluster's platform; never nil.
func (in Input) cloudFacts() *facts.Cloud { return in.Facts.Of(string(in.Traits.Name)) }

// arches returns the architectures that machines may have.
func (in Input) arches() []download.Arch {
	if a := cmp.Or(download.Arch(in.cloudFacts().Architecture), in.Arch); a != "" {
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

// machine returns what determines the files of a group's machines.
func (in Input) machine(g *api.InstanceGroup) assets.Machine {
	own := in.Traits.Model
	return assets.Machine{Kubernetes: in.kubernetes(g), CredentialProvider: own.CredentialProvider, NewestPlugins: own.NewestPlugins,
		CNIPlugins: in.needsCNIPlugins(), PluginsURL: in.PluginsURL, Containerd: g.Spec.Containerd}
}

// kubernetes returns the version of Kubernetes on the machines of a group.
func (in Input) kubernetes(g *api.InstanceGroup) string {
	if in.NodeVersion != "" && !g.HasAPIServer() {
		return in.NodeVersion
	}
	return in.spec().KubernetesVersion
}

// needsCNIPlugins reports whether the pod network consists of the reference plugins.
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

// image returns the name under which the cluster pulls a public image.
func (in Input) image(public string) string { return addons.Pull(public, in.spec().Assets, in.Facts) }

// ownImage returns the name under which the cluster pulls the image of one of kops' own programs.
func (in Input) ownImage(program string) string {
	return in.image(in.Own.ImageName(program, in.Version))
}

// noDNS reports whether the cluster's names are not published.
func (in Input) noDNS() bool { return in.spec().DNSType() == api.DNSNone }

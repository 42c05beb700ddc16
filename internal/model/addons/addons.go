// Package addons chooses the add-ons of a cluster, fills in their manifests and lists them in the
// channel that a control plane applies.
//
// A manifest is a template over View. The code here must not know any particular add-on.
package addons

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Input is what the add-ons of a cluster are derived from; nothing in it is changed.
type Input struct {
	Cluster *api.Cluster // completed
	Groups  []*api.InstanceGroup
	// Traits are the traits of the cluster's platform.
	Traits *traits.Traits
	// Version is kops' own version, which is also the version of the images it publishes.
	Version string
	// Region is the cluster's region; empty if the platform has none.
	Region string
	// Facts have digests of images, and the account of service account roles; may be nil.
	Facts *facts.Facts
	// Objects are the user's Kubernetes objects, one document each.
	Objects []map[string]any
	// Addons is the catalogue of add-ons; nil means this program's own.
	Addons *catalogue.Catalogue
	// Own has the image names of kops' own programs.
	Own assets.Own
	// Environment are the variables that control-plane pods need to reach the cluster's store.
	Environment []api.ContainerEnvVar
	// Secrets are the secrets that manifests may have, by name.
	Secrets map[string]pki.Secret
	// UserData returns what the machines of a group run at their first boot; nil: manifests leave
	// it empty.
	UserData func(*api.InstanceGroup) (resource.Value, error)
}

// userAddon is the name of the add-on that consists of the user's own objects.
const userAddon = "cluster-addons.kops.k8s.io"

// File is one file of the channel.
type File struct {
	// Name is the add-on's name, and ID distinguishes its editions; ID may be empty.
	Name, ID string
	// Path is the file's path below the folder addons.
	Path string
	// Content is the manifest; of what is not known before other resources exist, it has
	// placeholders. Value is the manifest itself.
	Content []byte
	Value   resource.Value
	// Boots means that machines boot with what it says: it has user data of groups.
	Boots bool
	// Images are the container images that its pods run, and Bundle is how a bundle gets them.
	Images []Image
	Bundle catalogue.Bundle
}

// Image is a container image.
type Image struct {
	// Public is its name in the public registry, with tag.
	Public string
	// Used is the name under which the cluster pulls it.
	Used string
}

// Result is the channel of a cluster.
type Result struct {
	// Channel is the file that lists the add-ons, with placeholders like a File's Content;
	// ChannelValue is the file itself.
	Channel      []byte
	ChannelValue resource.Value
	Files        []File
	// Findings are warnings about add-ons that the cluster requests and for which kops has no
	// manifest.
	Findings diag.List
}

// Build returns the add-ons of a cluster.
func Build(in Input) (*Result, error) {
	in.Addons = in.Addons.Or()
	out := &Result{}
	channel, digests := &api.Addons{}, &marks{}
	channel.Kind, channel.Name = api.KindAddons, "bootstrap"
	users := slices.Clone(in.Objects)
	for _, of := range in.Addons.Addons() {
		a, err := build(in, of, &users)
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", of.Folder, err)
		}
		if a == nil {
			continue
		}
		a.entry.ManifestHash = digests.text(resource.SHA256(a.file.Value))
		out.Files = append(out.Files, a.file)
		channel.Spec.Addons = append(channel.Spec.Addons, a.entry)
		out.Findings = append(out.Findings, a.findings...)
	}
	if f, entry, err := userFile(users); err != nil {
		return nil, err
	} else if entry != nil {
		out.Files = append(out.Files, f)
		channel.Spec.Addons = append(channel.Spec.Addons, *entry)
	}
	text, err := yaml.Marshal(channel)
	if err != nil {
		return nil, fmt.Errorf("write the channel of add-ons: %w", err)
	}
	out.Channel, out.ChannelValue = text, digests.value(string(text))
	return out, nil
}

func missingAddon(name string) diag.Finding {
	return diag.Finding{
		Object: "add-on " + name, Rule: "add-on-not-included", Warning: true,
		Message: "this version of kops has no manifest of this add-on: it neither applies it nor changes an installed one",
		Remedy:  "install it yourself once the cluster runs",
	}
}

func leftToUser(name, object string) diag.Finding {
	return diag.Finding{
		Object: "add-on " + name, Rule: "users-object", Warning: true,
		Message: "your own " + object + " is used instead of the add-on's",
		Remedy:  "rename yours, unless it is meant to replace the add-on's",
	}
}

// built is an add-on built for one cluster. Its entry has no digest yet.
type built struct {
	file     File
	entry    api.Addon
	findings diag.List
}

// build returns an add-on, or nil if it does not belong to the cluster. The objects that replace its
// own are removed from users.
func build(in Input, of *catalogue.Addon, users *[]map[string]any) (*built, error) {
	v, err := newView(in)
	if err != nil {
		return nil, err
	}
	if on, err := of.When.Holds(v.View); err != nil || !on {
		return nil, err
	}
	m, err := v.manifest(of)
	if err != nil {
		return nil, err
	}
	if of.Replaceable {
		if own := takeLabelled(users, of.Name); len(own) > 0 {
			m = &manifest{objects: own}
		}
	}
	a := &built{}
	if a.entry, err = entryOf(of, v.View); err != nil {
		return nil, err
	}
	var text []byte
	if m == nil {
		a.findings = append(a.findings, missingAddon(of.Name))
		text = []byte("# kops has no manifest of " + of.Name + ".\n")
	} else {
		for _, object := range m.leaveToUser(*users) {
			a.findings = append(a.findings, leftToUser(of.Name, object))
		}
		if text, err = v.write(m, of); err != nil {
			return nil, err
		}
		if a.entry.Prune, err = pruneSpec(of, v.View, m.objects); err != nil {
			return nil, err
		}
	}
	a.file = File{Name: of.Name, ID: a.entry.ID, Path: a.entry.Manifest, Content: text, Value: v.later.value(string(text)), Boots: v.boots, Images: v.usedImages(), Bundle: of.Bundle}
	return a, nil
}

// entryOf returns the add-on's entry in the channel, without what depends on its manifest.
func entryOf(of *catalogue.Addon, v *catalogue.View) (entry api.Addon, err error) {
	entry = api.Addon{Name: of.Name, NeedsRollingUpdate: of.NeedsRollingUpdate, Selector: of.Labels()}
	if entry.ID, err = of.ID.Fill(v); err != nil {
		return entry, err
	}
	entry.Manifest = path.Join(of.Name, cmp.Or(of.File, entry.ID+".yaml"))
	entry.NeedsPKI, err = of.NeedsPKI.Holds(v)
	return entry, err
}

// manifest is what an add-on consists of in one cluster.
type manifest struct {
	objects []map[string]any
	// hasDefinitions means that the add-on's custom resource definitions come before the objects.
	hasDefinitions bool
}

// manifest returns the manifest of an add-on, or nil if its folder has none.
func (v *View) manifest(of *catalogue.Addon) (*manifest, error) {
	t, err := of.Template("manifest.yaml")
	if err != nil || t == nil {
		return nil, err
	}
	text, err := v.fill(t)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Name(), err)
	}
	for _, i := range of.Images {
		name, err := i.Fill(v)
		if err != nil {
			return nil, err
		}
		if name != "" {
			v.image(name)
		}
	}
	return &manifest{objects, len(of.Definitions) > 0}, nil
}

// leaveToUser removes the configuration for which the user has an object with the same name, and
// returns the names.
func (m *manifest) leaveToUser(users []map[string]any) (names []string) {
	m.objects = slices.DeleteFunc(m.objects, func(o map[string]any) bool {
		isUsers := isConfiguration(o) && slices.ContainsFunc(users, func(u map[string]any) bool { return placeOf(u) == placeOf(o) })
		if isUsers {
			names = append(names, placeOf(o))
		}
		return isUsers
	})
	return names
}

// write returns the text of a manifest, whose objects get the add-on's labels, and pods their roles.
func (v *View) write(m *manifest, of *catalogue.Addon) ([]byte, error) {
	for _, o := range m.objects {
		if err := v.input.mountRole(v.View, o); err != nil {
			return nil, err
		}
		label(o, of.Name, of.Labels())
	}
	text, err := encode(m.objects)
	if err != nil || !m.hasDefinitions {
		return text, err
	}
	definitions, err := of.ConvertDefinitions(func(text []byte) ([]byte, error) { return labelAll(text, of.Name, of.Labels()) })
	if err != nil {
		return nil, fmt.Errorf("read the definitions: %w", err)
	}
	return slices.Concat(definitions, []byte(separator), text), nil
}

// userFile returns the file of the user's own objects; the entry is nil if there are none.
func userFile(objects []map[string]any) (File, *api.Addon, error) {
	// the configuration of the scheduler is a file on the control plane, not an object in the
	// cluster
	objects = slices.DeleteFunc(slices.Clone(objects), func(o map[string]any) bool { return o["kind"] == "KubeSchedulerConfiguration" })
	if len(objects) == 0 {
		return File{}, nil, nil
	}
	text, err := encode(objects)
	if err != nil {
		return File{}, nil, err
	}
	manifest := path.Join(userAddon, "default.yaml")
	entry := &api.Addon{Name: userAddon, Manifest: manifest, ManifestHash: digest(text), Selector: (&catalogue.Header{Name: userAddon}).Labels()}
	return File{Name: userAddon, Path: manifest, Content: text, Value: resource.Lit(string(text))}, entry, nil
}

// digest returns the hexadecimal SHA-256 of a manifest without surrounding white space.
func digest(manifest []byte) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(manifest))))
	return hex.EncodeToString(sum[:])
}

// Pull returns the name under which a cluster pulls a public image: on its mirrors, and with its
// digest if it is known.
func Pull(public string, spec *api.AssetsSpec, f *facts.Facts) string {
	name := assets.MirrorsOf(spec).Image(public)
	if f != nil && !strings.Contains(name, "@") {
		if d, ok := f.ImageDigest(public); ok {
			name += "@" + d
		}
	}
	return name
}

// ownImage returns the image of one of kops' own programs.
func (in Input) ownImage(program string) Image {
	name := in.Own.ImageName(program, in.Version)
	return Image{name, Pull(name, in.Cluster.Spec.Assets, in.Facts)}
}

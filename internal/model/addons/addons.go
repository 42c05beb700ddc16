// Package addons chooses the add-ons of a cluster, fills in their manifests and lists them in the
// channel that a control plane applies.
//
// Its manifest is a template over View. The code here must not know any particular add-on.
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
	// Images are the container images that its pods run.
	Images []Image
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
	user := slices.Clone(in.Objects)
	for _, of := range in.Addons.Addons() {
		a, err := build(in, of, &user)
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", of.Folder, err)
		}
		if a == nil {
			continue
		}
		a.entry.ManifestHash = digests.text(resource.SHA256(a.file.Value))
		out.Files = append(out.Files, a.file)
		channel.Spec.Addons = append(channel.Spec.Addons, a.entry)
		for _, l := range a.left {
			out.Findings = append(out.Findings, leftToUser(a.entry.Name, l))
		}
		if a.missing {
			out.Findings = append(out.Findings, missingAddon(a.entry.Name))
		}
	}
	if f, entry, err := userFile(user); err != nil {
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

// built is an add-on built for one cluster.
type built struct {
	file    File
	entry   api.Addon
	missing bool
	// left are its objects that are left to the user, who has objects of the same names.
	left []string
}

// build returns an add-on, or nil if it does not belong to the cluster. The user's objects that
// replace its own are removed from user.
func build(in Input, of *catalogue.Addon, user *[]map[string]any) (*built, error) {
	v, err := newView(in)
	if err != nil {
		return nil, err
	}
	if on, err := of.When.Holds(v.View); err != nil || !on {
		return nil, err
	}
	objects, found, err := v.objects(of)
	if err != nil {
		return nil, err
	}
	defined := found && len(of.Definitions) > 0
	if of.Replaceable {
		if own := takeLabelled(user, of.Name); len(own) > 0 {
			objects, found, defined = own, true, false
		}
	}
	a := &built{missing: !found}
	objects = slices.DeleteFunc(objects, func(o map[string]any) bool {
		users := isConfiguration(o) && slices.ContainsFunc(*user, func(u map[string]any) bool { return placeOf(u) == placeOf(o) })
		if users {
			a.left = append(a.left, placeOf(o))
		}
		return users
	})
	prune, err := a.describe(of, v.View)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := in.mountRole(v.View, o); err != nil {
			return nil, err
		}
		label(o, of.Name, a.entry.Selector)
	}
	if prune && found { // without a manifest, all objects of a running add-on would be pruned
		a.entry.Prune = pruneSpec(of.Name, objects)
	}
	text, err := encode(objects)
	if err != nil {
		return nil, err
	}
	if defined {
		definitions, err := of.ConvertDefinitions(func(text []byte) ([]byte, error) { return labelAll(text, of.Name, a.entry.Selector) })
		if err != nil {
			return nil, fmt.Errorf("read the definitions: %w", err)
		}
		text = slices.Concat(definitions, []byte(separator), text)
	}
	if a.missing {
		text = []byte("# kops has no manifest of " + of.Name + ".\n")
	}
	a.file = File{Name: of.Name, ID: a.entry.ID, Path: a.entry.Manifest, Content: text, Value: v.later.value(string(text)), Boots: v.boots, Images: v.usedImages()}
	return a, nil
}

// describe writes the add-on's entry in the channel, and reports whether old objects are pruned.
func (a *built) describe(of *catalogue.Addon, v *catalogue.View) (prune bool, err error) {
	a.entry = api.Addon{Name: of.Name, NeedsRollingUpdate: of.NeedsRollingUpdate, Selector: of.Labels()}
	if a.entry.ID, err = of.ID.Fill(v); err != nil {
		return false, err
	}
	a.entry.Manifest = path.Join(of.Name, cmp.Or(of.File, a.entry.ID+".yaml"))
	if a.entry.NeedsPKI, err = of.NeedsPKI.Holds(v); err != nil {
		return false, err
	}
	return of.Prune.Holds(v)
}

// objects returns the objects of an add-on's manifest without its definitions, and whether there is one.
func (v *View) objects(of *catalogue.Addon) ([]map[string]any, bool, error) {
	t, err := of.Template("manifest.yaml")
	if err != nil || t == nil {
		return nil, false, err
	}
	text, err := v.fill(t)
	if err != nil {
		return nil, false, err
	}
	objects, err := Decode(text)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", t.Name(), err)
	}
	for _, i := range of.Images {
		name, err := i.Fill(v)
		if err != nil {
			return nil, false, err
		}
		if name != "" {
			v.image(name)
		}
	}
	return objects, true, nil
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
	entry := &api.Addon{Name: userAddon, Manifest: manifest, ManifestHash: digest(text), Selector: map[string]string{"k8s-addon": userAddon}}
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

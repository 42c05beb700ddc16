// Package addons chooses the add-ons of a cluster, fills in their manifests and
// lists them in the channel that a control plane applies.
//
// Each add-on is a folder of catalog: addon.yaml says when it belongs to a
// cluster and how it is applied, manifest.yaml holds its objects. Both are
// templates over View. The code here must not know any single add-on.
package addons

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Input is what the add-ons of a cluster follow from; nothing in it is changed.
type Input struct {
	Cluster *api.Cluster // completed
	Groups  []*api.InstanceGroup
	// Traits are those of the cluster's platform.
	Traits *traits.Traits
	// Version is kops' own, that of the images it publishes.
	Version string
	// Region is where the cluster is; empty where the platform has none.
	Region string
	// Facts give digests of images, and the account of service account roles; may be nil.
	Facts *facts.Facts
	// Objects are Kubernetes objects of the user's, one document each.
	Objects []map[string]any
}

// userAddon is the name under which the user's own objects are applied.
const userAddon = "cluster-addons.kops.k8s.io"

// File is one file of the channel.
type File struct {
	// Name is the add-on's name, and ID what tells its editions apart; ID may be empty.
	Name, ID string
	// Path is where the file stands below the folder addons.
	Path    string
	Content []byte
	// Images are the container images that its pods run.
	Images []Image
}

// Image is a container image.
type Image struct {
	// Public is its name in the public registry, with tag.
	Public string
	// Used is its name as the cluster pulls it.
	Used string
}

// Result is the channel of a cluster.
type Result struct {
	// Channel is the file that lists the add-ons.
	Channel []byte
	Files   []File
	// Findings are warnings about add-ons that the cluster asks for and that kops has no manifest of.
	Findings diag.List
}

// Build returns the add-ons of a cluster.
func Build(in Input) (*Result, error) {
	all, err := catalogue()
	if err != nil {
		return nil, err
	}
	out := &Result{}
	channel := &api.Addons{}
	channel.Kind, channel.Name = api.KindAddons, "bootstrap"
	user := slices.Clone(in.Objects)
	for _, e := range all {
		a, err := e.build(in, &user)
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", e.folder, err)
		}
		if a == nil {
			continue
		}
		out.Files = append(out.Files, a.file)
		channel.Spec.Addons = append(channel.Spec.Addons, a.entry)
		if a.missing {
			out.Findings = append(out.Findings, missing(a.entry.Name))
		}
	}
	if f, entry, err := userFile(user); err != nil {
		return nil, err
	} else if entry != nil {
		out.Files = append(out.Files, f)
		channel.Spec.Addons = append(channel.Spec.Addons, *entry)
	}
	if out.Channel, err = yaml.Marshal(channel); err != nil {
		return nil, fmt.Errorf("write the channel of add-ons: %w", err)
	}
	return out, nil
}

func missing(name string) diag.Finding {
	return diag.Finding{
		Object: "add-on " + name, Rule: "add-on-not-included", Warning: true,
		Message: "this version of kops has no manifest of the add-on that the cluster asks for: it applies none, and leaves one that runs as it is",
		Remedy:  "install it yourself once the cluster runs",
	}
}

// built is an add-on of one cluster.
type built struct {
	file    File
	entry   api.Addon
	missing bool
}

// build returns the add-on, or nil when it does not belong to the cluster. The
// user's objects that stand for its own are taken from user.
func (e edition) build(in Input, user *[]map[string]any) (*built, error) {
	v, err := newView(in)
	if err != nil {
		return nil, err
	}
	meta, err := e.meta(v)
	if err != nil || !meta.When {
		return nil, err
	}
	objects, found, err := e.objects(v)
	if err != nil {
		return nil, err
	}
	if meta.Replaceable {
		if own := takeLabelled(user, meta.Name); len(own) > 0 {
			objects, found = own, true
		}
	}
	a := &built{missing: !found}
	a.entry = api.Addon{
		Name: meta.Name, ID: meta.ID, Manifest: path.Join(meta.Name, meta.file()), Selector: meta.selector(),
		NeedsRollingUpdate: meta.NeedsRollingUpdate, NeedsPKI: meta.NeedsPKI,
	}
	for _, o := range objects {
		if err := in.mountRole(o); err != nil {
			return nil, err
		}
		label(o, meta.Name, a.entry.Selector)
	}
	if meta.Prune && found { // without a manifest, all of one that runs would be pruned
		a.entry.Prune = pruneSpec(meta.Name, objects)
	}
	text, err := encode(objects)
	if err != nil {
		return nil, err
	}
	if a.missing {
		text = []byte("# kops has no manifest of " + meta.Name + ".\n")
	}
	a.entry.ManifestHash = digest(text)
	a.file = File{Name: meta.Name, ID: meta.ID, Path: a.entry.Manifest, Content: text, Images: v.used()}
	return a, nil
}

// userFile returns the file of the user's own objects; the entry is nil when there are none.
func userFile(objects []map[string]any) (File, *api.Addon, error) {
	// the configuration of the scheduler is a file of the control plane's, not an object of the cluster's
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
	return File{Name: userAddon, Path: manifest, Content: text}, entry, nil
}

// digest is the hexadecimal SHA-256 of a manifest without the space around it.
func digest(manifest []byte) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(manifest))))
	return hex.EncodeToString(sum[:])
}

// Pull returns what an image of a public registry is called for a cluster:
// under its mirrors, and with its digest where that is known.
func Pull(public string, spec *api.AssetsSpec, f *facts.Facts) string {
	name := assets.MirrorsOf(spec).Image(public)
	if f != nil && !strings.Contains(name, "@") {
		if d, ok := f.ImageDigest(public); ok {
			name += "@" + d
		}
	}
	return name
}

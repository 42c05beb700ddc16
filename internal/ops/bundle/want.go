package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/versions"
)

// Want is what a bundle is to hold.
type Want struct {
	// Kops and Kubernetes are the versions that it is for; empty is none.
	Kops, Kubernetes string
	// Files are public URLs with the SHA-256 that their publisher is known to
	// state, or "".
	Files map[string]string
	// Images are names with tag.
	Images []string
}

// ForDefault lists what the machines of a default cluster on a platform fetch. Versions are kops' own and that of Kubernetes, which is the recommended one when
// it is empty.
func ForDefault(p *platform.Platform, kops, kubernetes string, arches []download.Arch) (Want, error) {
	ch, ok := versions.Embedded(versions.Stable)
	if !ok {
		return Want{}, errors.New("this program holds no channel of versions")
	}
	const folder = "file:///state/bundle.k8s.local"
	spec, groups, findings := newcluster.New(
		newcluster.Options{ClusterName: "bundle.k8s.local", CloudProvider: string(p.Name), ConfigBase: folder, KubernetesVersion: kubernetes},
		newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Channel: ch, KopsVersion: kops})
	if err := findings.Err(); err != nil {
		return Want{}, fmt.Errorf("describe a cluster of Kubernetes %s: %w", kubernetes, err)
	}
	done, findings := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: spec, Groups: groups, Channel: ch, KopsVersion: kops, ConfigBase: folder})
	if err := findings.Err(); err != nil {
		return Want{}, fmt.Errorf("complete a cluster of Kubernetes %s: %w", kubernetes, err)
	}
	return Of(model.Input{Traits: &p.Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: kops}, arches)
}

// Of lists what the machines of a cluster fetch: the files that their node
// configuration names, at their publishers' places, nodeup, and the images that
// manifests and add-ons run. The input needs no keysets, and its facts are not
// used: they may be what comes of this.
func Of(in model.Input, arches []download.Arch) (Want, error) {
	in.Cluster = in.Cluster.DeepCopy()
	in.Cluster.Spec.Assets = nil // the publishers' places
	in.Facts, in.Keysets = nil, map[string]*pki.Keyset{}
	in.AllowUnverified = true // no machine is made of it: the digests come of the files that are fetched
	for _, n := range pki.KeysetNames(in.Cluster) {
		in.Keysets[n] = &pki.Keyset{Name: n}
	}
	in, err := in.Shared()
	if err != nil {
		return Want{}, err
	}
	nodes, _, err := model.Build(in)
	if err != nil {
		return Want{}, err
	}
	w := wants{files: map[string]string{}, images: map[string]bool{}, arches: arches}
	for _, i := range in.AddonImages() {
		w.images[i.Public] = true
	}
	for _, n := range nodes {
		f, ok := n.Want.(*managedfile.File)
		if !ok || strings.HasSuffix(f.Key, layout.Completed) {
			continue
		}
		if text, known := f.Content.Value().Known(); known && strings.HasSuffix(f.Key, ".yaml") {
			if err := w.document(text); err != nil {
				return Want{}, fmt.Errorf("read %s: %w", f.Key, err)
			}
		}
	}
	for _, a := range arches {
		nodeup := programs.Public(in.Version, a)
		w.files[nodeup], w.files[nodeup+".xz"] = "", ""
	}
	return Want{Kops: in.Version, Kubernetes: in.Cluster.Spec.KubernetesVersion, Files: w.files, Images: slices.Sorted(maps.Keys(w.images))}, nil
}

// wants collects what the files of a cluster name.
type wants struct {
	files  map[string]string
	images map[string]bool
	arches []download.Arch
}

// document reads the YAML documents of one file.
func (w wants) document(text string) error {
	for d := yaml.NewDecoder(bytes.NewBufferString(text)); ; {
		var doc any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w.value(doc)
	}
}

// value reads a part of a document: images stand under keys of their own in
// manifests, Kubernetes objects and node configuration alike.
func (w wants) value(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			w.value(e)
		}
	case map[string]any:
		for key, e := range v {
			text, isText := e.(string)
			switch {
			case isText && text != "" && slices.Contains([]string{"image", "sandboxImage", "reference"}, key):
				w.images[text] = true
			case key == "Assets":
				w.assets(e)
			default:
				w.value(e)
			}
		}
	}
}

// assets reads the files of node configuration: lines digest@url by architecture.
func (w wants) assets(v any) {
	byArch, _ := v.(map[string]any)
	for _, a := range w.arches {
		lines, _ := byArch[string(a)].([]any)
		for _, l := range lines {
			line, _ := l.(string)
			sum, places, known := strings.Cut(line, "@")
			if !known {
				sum, places = "", line
			}
			if sum == download.Unverified {
				sum = ""
			}
			public, _, _ := strings.Cut(places, ",")
			w.files[public] = sum
		}
	}
}

package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/facts"
)

// Fetched is what the machines and pods of a cluster fetch, under the publishers' names.
type Fetched struct {
	// Arches are the architectures of the machines.
	Arches []download.Arch
	// Files are public URLs with their known SHA-256, or "".
	Files map[string]string
	// Images are names with a tag, or with the digest by which the cluster refers to them; sorted.
	Images []string
}

// FetchedBy determines what a cluster fetches from the cluster's own files: the files in the node
// configuration, nodeup, and the images that manifests, add-ons and hooks run. Without arches, it
// uses the architectures of the cluster's machines. The input needs no keysets. Digests among its
// facts are ignored, as they may be computed from this result. Its spec must be completed without
// mirrors, because the result would otherwise have the mirrors' names.
func FetchedBy(in Input, arches []download.Arch) (Fetched, error) {
	in = in.withoutTrust()
	if len(arches) == 0 {
		arches = in.machineArches()
	}
	in, err := in.Shared()
	if err != nil {
		return Fetched{}, err
	}
	nodes, _, err := Build(in)
	if err != nil {
		return Fetched{}, err
	}
	n := references{arches: arches, files: map[string]string{}, images: map[string]bool{}}
	for _, i := range in.AddonImages() {
		n.images[i.Public] = true
	}
	for _, node := range nodes {
		f, ok := node.Want.(*managedfile.File)
		if !ok || strings.HasSuffix(f.Key, layout.Completed) {
			continue
		}
		if text, known := f.Content.Value().Known(); known && strings.HasSuffix(f.Key, ".yaml") {
			if err := n.document(text); err != nil {
				return Fetched{}, fmt.Errorf("read %s: %w", f.Key, err)
			}
		}
	}
	for _, a := range arches {
		f := in.Own.Nodeup(in.Version, a, "", assets.Mirrors{}, nil)
		n.files[f.Public] = f.SHA256
	}
	return Fetched{arches, n.files, slices.Sorted(maps.Keys(n.images))}, nil
}

// withoutTrust returns an input without mirrors, keys and digests, from which no machine is created.
func (in Input) withoutTrust() Input {
	in.Cluster = in.Cluster.DeepCopy()
	in.Cluster.Spec.Assets = nil
	in.Keysets, in.AllowUnverified = map[string]*pki.Keyset{}, true
	for _, n := range pki.KeysetNames(in.Cluster) {
		in.Keysets[n] = &pki.Keyset{Name: n}
	}
	if in.Facts == nil {
		return in
	}
	known := &facts.Facts{Clouds: maps.Clone(in.Facts.Clouds)}
	if own := known.Clouds[string(in.Traits.Name)]; own != nil {
		without := *own
		without.Bundle = "" // it would otherwise be searched for what is missing in it
		known.Clouds[string(in.Traits.Name)] = &without
	}
	in.Facts = known
	return in
}

// machineArches returns the architectures of the machines of all groups.
func (in Input) machineArches() []download.Arch {
	var out []download.Arch
	for _, a := range download.Arches() {
		if slices.ContainsFunc(in.Groups, func(g *api.InstanceGroup) bool { return isConfigured(g) && slices.Contains(in.archesOf(g), a) }) {
			out = append(out, a)
		}
	}
	return out
}

// references collects the files and images that a cluster's files name.
type references struct {
	arches []download.Arch
	files  map[string]string
	images map[string]bool
}

// document reads the YAML documents of one file.
func (n references) document(text string) error {
	for d := yaml.NewDecoder(bytes.NewBufferString(text)); ; {
		var doc any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n.value(doc)
	}
}

// value reads a part of a document: images have keys of their own in manifests, Kubernetes objects
// and node configuration alike.
func (n references) value(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n.value(e)
		}
	case map[string]any:
		for key, e := range v {
			text, isText := e.(string)
			switch {
			case isText && text != "" && slices.Contains([]string{"image", "sandboxImage", "reference"}, key):
				n.images[text] = true
			case key == "Assets":
				n.assets(e)
			default:
				n.value(e)
			}
		}
	}
}

// assets reads the files in node configuration: lines digest@url by architecture.
func (n references) assets(v any) {
	byArch, _ := v.(map[string]any)
	for _, a := range n.arches {
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
			n.files[public] = sum
		}
	}
}

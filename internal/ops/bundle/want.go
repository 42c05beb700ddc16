package bundle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/versions"
)

// Want is what a bundle should hold.
type Want struct {
	// Kops and Kubernetes are the versions that it is for; they may be empty.
	Kops, Kubernetes string
	// Files are public URLs with the SHA-256 that their publisher states, or "" if it is not known.
	Files map[string]string
	// Images are names with a tag, or with the digest by which a cluster refers to them.
	Images []string
}

// Default specifies a cluster of which nothing else is set.
type Default struct {
	// Kops is kops' own version.
	Kops string
	// Kubernetes is empty for the recommended version, and Networking for the platform's own pod network.
	Kubernetes, Networking string
	// Addons are names from Addons.
	Addons []string
}

// addon is an add-on whose programs can be built.
type addon struct {
	// sets is how a cluster has it, as the option --set of `kops create cluster`; users install an
	// add-on themselves that no field of a cluster has.
	sets []string
	// image is what the user's own manifest runs.
	image string
}

func addons() map[string]addon {
	const certManager = "spec.certManager.enabled=true"
	return map[string]addon{
		"cert-manager":        {sets: []string{certManager}},
		"metrics-server":      {sets: []string{"spec.metricsServer.enabled=true"}},
		"snapshot-controller": {sets: []string{"spec.snapshotController.enabled=true", certManager}},
		"external-dns":        {image: "registry.k8s.io/external-dns/external-dns:v0.14.1"},
		"local-path":          {image: "docker.io/rancher/local-path-provisioner:v0.0.30"},
	}
}

// Addons lists the add-ons that a bundle can have besides what a default cluster fetches.
func Addons() []string { return slices.Sorted(maps.Keys(addons())) }

// ForDefault lists what the machines of a default cluster on a platform fetch.
func ForDefault(p *platform.Platform, d Default, arches []download.Arch) (Want, error) {
	kops, kubernetes := d.Kops, d.Kubernetes
	ch, ok := versions.Embedded(versions.Stable)
	if !ok {
		return Want{}, errors.New("this build of kops has no channel")
	}
	const folder = "file:///state/bundle.k8s.local"
	var sets, images []string
	for _, name := range d.Addons {
		a, ok := addons()[name]
		if !ok {
			return Want{}, fmt.Errorf("there is nothing to build for the add-on %q; supported add-ons: %s", name, strings.Join(Addons(), ", "))
		}
		sets = append(sets, a.sets...)
		if a.image != "" {
			images = append(images, a.image)
		}
	}
	spec, groups, findings := newcluster.New(
		newcluster.Options{ClusterName: "bundle.k8s.local", CloudProvider: string(p.Name), ConfigBase: folder, KubernetesVersion: kubernetes, Networking: d.Networking, Sets: sets},
		newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Channel: ch, KopsVersion: kops})
	if err := findings.Err(); err != nil {
		return Want{}, fmt.Errorf("describe a cluster of Kubernetes %s: %w", kubernetes, err)
	}
	done, findings := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: spec, Groups: groups, Channel: ch, KopsVersion: kops, ConfigBase: folder})
	if err := findings.Err(); err != nil {
		return Want{}, fmt.Errorf("complete a cluster of Kubernetes %s: %w", kubernetes, err)
	}
	w, err := Of(model.Input{Traits: &p.Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: kops}, arches)
	w.Images = append(w.Images, images...)
	return w, err
}

// Of returns what a bundle must hold so that a cluster can fetch everything from it; see
// model.FetchedBy.
func Of(in model.Input, arches []download.Arch) (Want, error) {
	f, err := model.FetchedBy(in, arches)
	if err != nil {
		return Want{}, err
	}
	for _, a := range f.Arches {
		f.Files[programs.Public(in.Version, a)+".xz"] = ""
	}
	return Want{Kops: in.Version, Kubernetes: in.Cluster.Spec.KubernetesVersion, Files: f.Files, Images: f.Images}, nil
}

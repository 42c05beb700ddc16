package bundle

import (
	"errors"
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/catalogue"
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

// Addons lists the add-ons that a bundle can have besides what a default cluster fetches.
func Addons() []string { return addons().OnRequestNames() }

// addons returns this program's catalogue.
func addons() *catalogue.Catalogue { return (*catalogue.Catalogue)(nil).Or() }

// ForDefault lists what the machines of a default cluster on a platform fetch.
func ForDefault(p *platform.Platform, d Default, arches []download.Arch) (Want, error) {
	kops, kubernetes := d.Kops, d.Kubernetes
	ch, ok := versions.Embedded(versions.Stable)
	if !ok {
		return Want{}, errors.New("this build of kops has no channel")
	}
	const folder = "file:///state/bundle.k8s.local"
	onRequest := addons().OnRequest()
	var sets, images []string
	for _, name := range d.Addons {
		a, ok := onRequest[name]
		if !ok {
			return Want{}, fmt.Errorf("there is nothing to build for the add-on %q; supported add-ons: %s", name, strings.Join(Addons(), ", "))
		}
		sets, images = append(sets, a.Settings()...), append(images, a.Bundle.Images...)
	}
	if a := addons().ForNetwork(d.Networking); a != nil {
		sets = append(sets, a.Settings()...)
	}
	spec, groups, findings := newcluster.New(
		newcluster.Options{ClusterName: "bundle.k8s.local", CloudProvider: string(p.Name), ConfigBase: folder, KubernetesVersion: kubernetes, Networking: d.Networking, Sets: sets},
		newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Channel: ch, KopsVersion: kops})
	if err := findings.Err(); err != nil {
		return Want{}, fmt.Errorf("describe the cluster of the bundle: %w", err)
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

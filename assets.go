package kops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/store/clusterstore"
)

// Assets are the files and images that the machines and pods of a cluster fetch, each
// with its publisher's name and the place that the cluster takes it from.
type Assets struct {
	Images []ImageAsset `json:"images"`
	Files  []FileAsset  `json:"files"`
	// Warnings say what else the cluster fetches, and which digests are not available.
	Warnings finding.List `json:"-"`

	of *pipeline.Assets
}

// ImageAsset is a container image. Download is its name under the cluster's registry.
type ImageAsset struct {
	Canonical string `json:"canonical"`
	Download  string `json:"download"`
}

// FileAsset is a file. SHA is its hexadecimal SHA-256; "" when nobody states it.
type FileAsset struct {
	Canonical string `json:"canonical"`
	Download  string `json:"download"`
	SHA       string `json:"sha"`
}

// As sets what target points to, where that is of the type that serves inside.
func (a *Assets) As(target any) bool {
	t, ok := target.(**pipeline.Assets)
	if ok {
		*t = a.of
	}
	return ok
}

// AssetsOptions say how assets are found.
type AssetsOptions struct {
	// Facts, when set, are taken instead of asking the platform.
	Facts *Facts
	// Arches are architectures, amd64 or arm64; empty: those of the cluster's machines.
	Arches []string
	// Hashes looks up the digests of files that this program does not know.
	Hashes bool
}

// Assets lists what a cluster fetches, which need not be stored. Nothing is changed.
func (c *Client) Assets(ctx context.Context, cl *Cluster, o AssetsOptions) (*Assets, error) {
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err != nil {
		return nil, err
	}
	known, err := opened.LookUp(ctx, o.Facts.known())
	if err != nil && fault.Of(err) != fault.Permanent {
		err = fmt.Errorf("%w; the files that a cluster fetches depend on data of its cloud; give access to the cloud, or a facts file: option:Facts", err)
	}
	if err != nil {
		return nil, err
	}
	var arches []download.Arch
	for _, a := range o.Arches {
		arches = append(arches, download.Arch(a))
	}
	found, err := known.Assets(ctx, arches)
	if err != nil {
		return nil, err
	}
	out := &Assets{of: found, Warnings: found.Warnings}
	if o.Hashes {
		unfound, err := c.world.Hashes(ctx, found)
		if err != nil {
			return nil, err
		}
		for _, u := range slices.Sorted(maps.Keys(unfound)) {
			out.Warnings = append(out.Warnings, finding.Finding{Rule: "unknown-digest", Warning: true, Message: "the SHA-256 of " + u + " is not known: " + unfound[u]})
		}
	}
	for _, i := range found.Images {
		out.Images = append(out.Images, ImageAsset{i, found.Mirrors.Image(i)})
	}
	for _, u := range slices.Sorted(maps.Keys(found.Files)) {
		out.Files = append(out.Files, FileAsset{u, found.Mirrors.URL(u), found.Files[u]})
	}
	return out, nil
}

// Described is the cluster that objects describe: one Cluster, and what belongs to it.
// Nothing is read from the store, nor written.
func (s Clusters) Described(objs []api.Object) (*Cluster, error) {
	if err := writable(objs); err != nil {
		return nil, err
	}
	clusters, _ := Named(objs)
	if len(clusters) != 1 {
		return nil, fmt.Errorf("the objects describe %d clusters; give one Cluster and its instance groups", len(clusters))
	}
	one := map[string]*change{clusters[0]: {now: &clusterstore.Contents{}}}
	for _, o := range objs {
		ch, err := owner(one, clusters, o)
		if err != nil {
			return nil, err
		}
		if _, err := ch.put(o, false); err != nil {
			return nil, err
		}
	}
	now := one[clusters[0]].now
	if now.Spec == nil {
		return nil, errors.New("the objects hold no Cluster")
	}
	return newCluster(now), nil
}

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

// Assets are the files and images that the machines and pods of a cluster download, each
// with the publisher's name and the location that the cluster uses.
type Assets struct {
	Images []ImageAsset `json:"images"`
	Files  []FileAsset  `json:"files"`
	// Warnings list what else the cluster downloads, and which digests are not available.
	Warnings finding.List `json:"-"`

	assets *pipeline.Assets
}

// ImageAsset is a container image. Download is its name under the cluster's registry.
type ImageAsset struct {
	Canonical string `json:"canonical"`
	Download  string `json:"download"`
}

// FileAsset is a file. SHA is its hexadecimal SHA-256, or "" if it is unknown.
type FileAsset struct {
	Canonical string `json:"canonical"`
	Download  string `json:"download"`
	SHA       string `json:"sha"`
}

// As sets the value that target points to, if that has the internal type.
func (a *Assets) As(target any) bool {
	t, ok := target.(**pipeline.Assets)
	if ok {
		*t = a.assets
	}
	return ok
}

// AssetsOptions configure how assets are determined.
type AssetsOptions struct {
	// Facts, if set, are used instead of querying the platform.
	Facts *Facts
	// Arches are architectures, amd64 or arm64; empty means the architectures of the cluster's machines.
	Arches []string
	// Hashes enables looking up the digests of files that this program does not know.
	Hashes bool
}

// Assets lists what a cluster downloads; the cluster need not be stored. Nothing is changed.
func (c *Client) Assets(ctx context.Context, cl *Cluster, o AssetsOptions) (*Assets, error) {
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err != nil {
		return nil, err
	}
	known, err := opened.LookUp(ctx, o.Facts.internal())
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
	out := &Assets{assets: found, Warnings: found.Warnings}
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

// Describe returns the cluster that objects describe: one Cluster, and the objects that belong to it.
// It neither reads nor writes the store.
func (s Clusters) Describe(objs []api.Object) (*Cluster, error) {
	if err := checkWritable(objs); err != nil {
		return nil, err
	}
	clusters, _ := Named(objs)
	if len(clusters) != 1 {
		return nil, fmt.Errorf("the objects describe %d clusters; give one Cluster and its instance groups", len(clusters))
	}
	one := map[string]*change{clusters[0]: {now: &clusterstore.Contents{}}}
	for _, o := range objs {
		ch, err := changeOwning(one, clusters, o)
		if err != nil {
			return nil, err
		}
		if _, err := ch.apply(o, false); err != nil {
			return nil, err
		}
	}
	now := one[clusters[0]].now
	if now.Spec == nil {
		return nil, errors.New("the objects hold no Cluster")
	}
	return newCluster(now), nil
}

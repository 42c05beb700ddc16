package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Assets are the files and images that the machines and pods of a cluster fetch.
type Assets struct {
	model.Fetched
	// Cluster is its name; Kops and Kubernetes are the versions of the assets.
	Cluster, Kops, Kubernetes string
	// Mirrors are the cluster's own mirrors.
	Mirrors assets.Mirrors
	// Bundle is the folder from which the machines fetch everything; "" if there is none.
	Bundle string
	// Archive has the contents of kops' own programs among them; nil if none was found.
	Archive  *delivery.Archive
	Warnings diag.List

	facts *facts.Facts // may know digests of files
}

// Assets completes the cluster, and reads from its graph what it fetches: for the given
// architectures, or for those of its machines.
func (k *Known) Assets(ctx context.Context, arches []download.Arch) (*Assets, error) {
	done, err := k.Complete()
	if err == nil {
		done, err = done.Validate()
	}
	if err != nil {
		return nil, err
	}
	plain, err := k.withoutMirrors().Complete() // because completion writes names of mirrors
	if err != nil {
		return nil, err
	}
	in := plain.files()
	if k.Provider.Lookup.Region != nil {
		if in.Region, err = k.Provider.Lookup.Region(plain.Done.Spec); err != nil {
			return nil, err
		}
	}
	if in.Objects, err = k.documents(); err != nil {
		return nil, err
	}
	in, archive, err := k.programs(ctx, in)
	if err != nil {
		return nil, err
	}
	fetched, err := model.FetchedBy(in, arches)
	if err != nil {
		return nil, err
	}
	if archive != nil && in.Own.Base != "" {
		archive = nil // only its index was read
	}
	return &Assets{Fetched: fetched, Cluster: done.Done.Spec.Name, Bundle: k.Facts.Of(string(k.Provider.Name)).Bundle, Kops: k.World.Version, Kubernetes: done.Done.Spec.Spec.KubernetesVersion,
		Mirrors: assets.MirrorsOf(done.Done.Spec.Spec.Assets), Archive: archive, Warnings: slices.Concat(done.Warnings, foreign(done.Done.Spec)), facts: k.Facts}, nil
}

// withoutMirrors returns the cluster without mirrors.
func (k *Known) withoutMirrors() *Known {
	opened, known := *k.Opened, *k
	opened.Cluster = k.Cluster.Clone()
	opened.Cluster.Spec.Spec.Assets = nil
	known.Opened = &opened
	return &known
}

// foreign reports manifests that the cluster itself reads, so that their images are not known.
func foreign(c *api.Cluster) diag.List {
	var out diag.List
	for i, a := range c.Spec.Addons {
		out = append(out, diag.Finding{Object: api.Name(c), Path: fmt.Sprintf("spec.addons[%d].manifest", i), Value: a.Manifest, Rule: "foreign-manifest", Warning: true,
			Message: "is fetched by the cluster itself, so neither the manifest nor its images are included", Remedy: "add its images with kops bundle add"})
	}
	return out
}

// Hashes looks up the missing digests of files, and returns why others were not found, by public
// URL. Digests of kops' own programs are not published.
func (w *World) Hashes(ctx context.Context, a *Assets) (unfound map[string]string, err error) {
	unfound = map[string]string{}
	known := w.withOwnHashes(a.facts)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(hashLimit)
	for _, u := range slices.Sorted(maps.Keys(a.Files)) {
		if a.Files[u] == "" && known != nil {
			a.Files[u], _ = known.FileHash(u)
		}
		if a.Files[u] != "" || programs.IsOwn(u) {
			continue
		}
		g.Go(func() error {
			sum, err := w.hash(ctx, u, a.Mirrors)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unfound[u] = err.Error()
			} else {
				a.Files[u] = sum
			}
			return ctx.Err()
		})
	}
	return unfound, g.Wait()
}

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/spec/facts"
)

// withSigned returns the input with the digests of files and images in the signed index of the
// cluster's own files, if its spec has keys: they take precedence over all others, because machines
// accept nothing else. Offline they come from the facts.
func (k *Known) withSigned(ctx context.Context, in model.Input) (model.Input, error) {
	m := assets.MirrorsOf(in.Cluster.Spec.Assets)
	if len(m.Keys()) == 0 || k.World.Offline {
		return in, nil
	}
	at := m.Repository()
	if folder := in.Facts.Of(string(in.Traits.Name)).Bundle; folder != "" {
		at = "file://" + folder // the machines' repository serves this folder
	}
	index, err := k.World.signedIndex(ctx, at, m.Keys())
	if err != nil {
		return in, err
	}
	found := facts.Facts{}
	if in.Facts != nil {
		found = *in.Facts
	}
	found.FileHashes, found.ImageDigests = copyMap(found.FileHashes), copyMap(found.ImageDigests)
	in.Signed = map[string]bool{}
	for u, f := range index.Files {
		found.FileHashes[u], in.Signed[f.SHA256] = f.SHA256, true
	}
	for n, i := range index.Images {
		if programs.IsOwn(n) && !m.Images() {
			continue // machines import it under that name
		}
		digest := i.Digest
		if m.Images() && i.Subset != "" {
			digest = i.Subset
		}
		found.ImageDigests[n], found.ImageDigests[m.Image(n)] = digest, digest
	}
	in.Facts = &found
	return in, nil
}

func copyMap(m map[string]string) map[string]string {
	if m = maps.Clone(m); m == nil {
		m = map[string]string{}
	}
	return m
}

// signedIndex reads the index of a repository, and checks that one of the keys has signed it.
func (w *World) signedIndex(ctx context.Context, repository string, keys []string) (*signed.Index, error) {
	const field, remedy = "spec.assets.trustedKeys", "sign the bundle with kops bundle sign, and push it again"
	at := strings.TrimSuffix(repository, "/") + "/"
	index, err := w.read(ctx, at+signed.IndexName)
	var signature []byte
	if err == nil {
		signature, err = w.read(ctx, at+signed.SignatureName)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Of(err), fmt.Errorf("%s: the signed index of %s could not be read, and without it machines reject its files: %w", field, repository, err), remedy)
	}
	i, err := signed.Open(keys, index, signature)
	if errors.Is(err, signed.ErrUnsigned) {
		err = fault.Wrap(fault.Permanent, fmt.Errorf("%s: %s%s: %w, so machines would reject its files", field, at, signed.IndexName, err), remedy)
	} else if err != nil {
		err = fault.Wrap(fault.Permanent, fmt.Errorf("%s: %s%s: %w", field, at, signed.IndexName, err), remedy)
	}
	return i, err
}

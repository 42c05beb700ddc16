package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/host"
)

// Where a machine keeps the index of files that it has checked, with its signature: it
// says the same when the machine starts again, wherever the repository then is.
const (
	indexFile     = "/var/lib/kops/files.json"
	signatureFile = indexFile + ".sig"
)

// trusted checks that the files that the machine fetches from a repository are in its index, and
// that a key of the configuration has signed the index.
func (r *run) trusted(ctx context.Context) error {
	t := r.input.Config.FileTrust
	if t == nil || r.renewing {
		return nil
	}
	files := map[string]string{} // URL → digest
	for _, line := range r.input.Config.Assets[r.input.Host.Arch] {
		a, err := host.NewAsset(line)
		if err != nil {
			return err
		}
		if strings.HasPrefix(a.URLs[0], t.Repository+"/") {
			files[a.URLs[0]] = a.SHA256
		}
	}
	r.index, r.signature = r.kept(indexFile), r.kept(signatureFile)
	if i, err := signed.Open(t.Keys, r.index, r.signature); err == nil && unnamed(i, files) == "" {
		return nil
	}
	index, err := r.fetchIndex(ctx, t.Repository, t.Keys)
	if err != nil {
		return err
	}
	if u := unnamed(index, files); u != "" {
		return fault.Wrap(fault.NotYet, fmt.Errorf("%s is refused: the signed index of %s has no file of the SHA-256 %s", u, t.Repository, files[u]),
			"push the bundle that has the file, signed; or run kops update cluster --yes and kops rolling-update cluster --yes, so that machines take those of the index")
	}
	return nil
}

// fetchIndex reads the index of a repository.
func (r *run) fetchIndex(ctx context.Context, repository string, keys []string) (i *signed.Index, err error) {
	at := repository + "/" + signed.IndexName
	if r.index, err = r.read(ctx, at); err == nil {
		r.signature, err = r.read(ctx, repository+"/"+signed.SignatureName)
	}
	if err == nil {
		i, err = signed.Open(keys, r.index, r.signature)
	}
	if err != nil {
		err = fault.Wrap(fault.Of(err), fmt.Errorf("no file of %s is taken, as its index cannot be trusted: %w", repository, err), "sign the bundle with kops bundle sign, and push it again")
	}
	return i, err
}

// unnamed is a file that an index does not have, or "".
func unnamed(i *signed.Index, files map[string]string) string {
	for u, sum := range files {
		if !i.Has(sum) {
			return u
		}
	}
	return ""
}

// kept is a file of the machine; nil when it has none.
func (r *run) kept(file string) []byte {
	text, err := os.ReadFile(filepath.Join(r.Machine.Root, file))
	if err != nil {
		return nil // it is read again
	}
	return text
}

// keepIndex keeps the index that was checked.
func (r *run) keepIndex(ctx context.Context) error {
	if len(r.index) == 0 {
		return nil
	}
	return errors.Join(keep(ctx, r.Machine, indexFile, string(r.index)), keep(ctx, r.Machine, signatureFile, string(r.signature)))
}

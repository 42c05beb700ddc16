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

// Where a machine keeps the index of files that it has verified, with its signature,
// so that it can start again without reaching the repository.
const (
	indexFile     = "/var/lib/kops/files.json"
	signatureFile = indexFile + ".sig"
)

// trusted checks that the files that the machine fetches from a repository are in its index, and
// that one of the configuration's keys has signed the index.
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
	r.index, r.signature = r.localFile(indexFile), r.localFile(signatureFile)
	if i, err := signed.Open(t.Keys, r.index, r.signature); err == nil && missingFile(i, files) == "" {
		return nil
	}
	index, err := r.fetchIndex(ctx, t.Repository, t.Keys)
	if err != nil {
		return err
	}
	if u := missingFile(index, files); u != "" {
		return fault.Wrap(fault.NotYet, fmt.Errorf("%s is refused: the signed index of %s has no file with the SHA-256 %s", u, t.Repository, files[u]),
			"push the bundle that has the file, signed; or run kops update cluster --yes and kops rolling-update cluster --yes, so that machines use the files of the index")
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
		err = fault.Wrap(fault.Of(err), fmt.Errorf("no file of %s is used, because its index cannot be trusted: %w", repository, err), "sign the bundle with kops bundle sign, and push it again")
	}
	return i, err
}

// missingFile returns a file that is missing in the index, or "".
func missingFile(i *signed.Index, files map[string]string) string {
	for u, sum := range files {
		if !i.Has(sum) {
			return u
		}
	}
	return ""
}

// localFile returns the content of one of the machine's files, or nil if there is none.
func (r *run) localFile(file string) []byte {
	text, err := os.ReadFile(filepath.Join(r.Machine.Root, file))
	if err != nil {
		return nil // it is fetched again
	}
	return text
}

// keepIndex stores the verified index.
func (r *run) keepIndex(ctx context.Context) error {
	if len(r.index) == 0 {
		return nil
	}
	return errors.Join(writeIfChanged(ctx, r.Machine, indexFile, string(r.index)), writeIfChanged(ctx, r.Machine, signatureFile, string(r.signature)))
}

package metal

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/store/confined"
)

// manifest lists the files of a graph, one per line: the key and a digest. The content
// of keys and secrets does not change as long as their names do not.
func manifest(g *graph.Graph) (string, error) {
	var lines []string
	for n := range g.All() {
		switch f := n.Want.(type) {
		case *managedfile.File:
			sum, known := f.Content.Digest()
			if !known {
				return "", fmt.Errorf("the content of %s is not known before it is written", f.Key)
			}
			lines = append(lines, f.Key+" "+sum+"\n")
		case *managedfile.Private:
			lines = append(lines, n.Address.Kind+" "+f.Name+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

// isCopied reports whether the control plane needs the file with a key in the cluster's folder: it
// is in the manifest, or key material. Other files may be about to be deleted.
func isCopied(manifest, key string) bool {
	return strings.Contains("\n"+manifest, "\n"+key+" ") || !layout.IsOwned(key) && (strings.HasPrefix(key, layout.PKI+"/") || strings.HasPrefix(key, layout.Secrets+"/"))
}

//go:embed copy.sh
var copyScript string

// copy copies what the control plane needs from a folder to the same folder on a host.
func (c *client) copy(ctx context.Context, name, folder string, state resource.Content) error {
	listed, _ := state.Value().Known() // the model created it
	packed, err := pack(folder, listed)
	if err == nil {
		_, err = c.run(ctx, name, "folder="+ssh.Quote(folder)+"\n"+copyScript, bytes.NewReader(packed))
	}
	if err != nil {
		return fmt.Errorf("copy the files of the control plane to the host %s: %w", name, err)
	}
	return nil
}

// fileSize is the size limit of a file of the state store, in bytes.
const fileSize = 64 << 20

// pack returns a tar archive of what the control plane needs from a folder.
func pack(folder, manifest string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := confined.Walk(folder, ".", func(key string) error {
		if !isCopied(manifest, key) {
			return nil
		}
		data, err := confined.Read(folder, key, fileSize)
		if errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.NotYet, err, "")
		}
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: key, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatPAX})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

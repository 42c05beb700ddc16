package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/bundle"
)

func extract(app *shell.App) *cobra.Command {
	var dir, to string
	c := shell.Cobra("extract FILE", "Extract a file from a bundle", `
Write a file of a bundle, such as kubectl, to the current folder or to the path given
with --to, and check it against its digest. FILE is the end of a public URL. If
several files match, the command takes the newest version for this computer's
architecture; give more of the URL to choose another.`, `
  kops bundle extract kubectl --to /usr/local/bin/kubectl
  kops bundle extract v1.36.3/bin/linux/amd64/kubelet`,
		func(_ context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("name one file, such as kubectl")
			}
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			url, ok := b.Named(args[0], runtime.GOARCH)
			if !ok {
				return fmt.Errorf("no file of the bundle %s ends in %s; see kops bundle list", b.Dir(), args[0])
			}
			if to == "" {
				to = path.Base(url)
			}
			return write(b, url, to)
		})
	dirFlag(c, &dir)
	c.Flags().StringVar(&to, "to", "", "file to write (default: the file's name, in the current folder)")
	return c
}

// write writes the file, and moves it to its place when it is complete.
func write(b *bundle.Bundle, url, to string) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	err = errors.Join(b.Extract(url, f), f.Chmod(0o755), f.Close()) // it is a program, or an archive that hides nothing
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // the first error is the one to tell
	}
	return err
}

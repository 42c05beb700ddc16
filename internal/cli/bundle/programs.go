package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/delivery"
)

// packing has the flags of `kops bundle programs`.
type packing struct {
	own, out string
	arches   []string
}

func programs(app *shell.App) *cobra.Command {
	var o packing
	c := shell.Cobra("programs", "Pack kops' own binaries for machines into an archive", `
Pack kops' own binaries for machines, such as nodeup and kops-controller, into one
archive. 'kops update cluster' copies the binaries that a cluster needs from it to the
cluster's state store, so that machines fetch nothing of kops from anywhere else.

kops looks for the archive next to itself, and then in its cache; $KOPS_PROGRAMS names
another archive. The same binaries always produce the same archive.`, `
  # the same as 'make archive'
  kops bundle programs --own .build --arch amd64,arm64`,
		func(_ context.Context, _ []string) error { return o.run(app) })
	c.Args = shell.NoArguments("")
	f := c.Flags()
	f.StringVar(&o.own, "own", "", "folder with the binaries, or with subfolders linux-ARCH (default: the folder of kops)")
	f.StringVar(&o.out, "out", "", "file to write (default: next to kops)")
	f.StringSliceVar(&o.arches, "arch", archNames(), "architectures of the machines: amd64, arm64")
	shell.Complete(c, "arch", archNames()...)
	return c
}

func (o packing) run(app *shell.App) (err error) {
	arches, err := parseArches(o.arches)
	if err != nil {
		return err
	}
	if o.own == "" {
		o.own = filepath.Dir(app.Program)
	}
	if o.out == "" {
		o.out = filepath.Join(filepath.Dir(app.Program), delivery.FileName(app.Version))
	}
	draft, err := os.CreateTemp(filepath.Dir(o.out), ".new-*")
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // it is gone when all went well
	index, err := bundle.Pack(draft, o.own, app.Version, arches, progress(app))
	if err = errors.Join(err, draft.Chmod(0o644), draft.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), o.out); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	info, err := os.Stat(o.out)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	app.Printf("%s holds nodeup and %d images for %d architectures, %s\n", o.out, len(index.Images), len(arches), megabytes(info.Size()))
	return nil
}

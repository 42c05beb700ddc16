package bundle

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/bundle"
)

// pulled is the output of `kops bundle pull`.
type pulled struct {
	bundle.Pulled
	From    string   `json:"from"`
	Dir     string   `json:"dir"`
	Signers []string `json:"signers,omitempty"` // files of the required keys
}

func pull(app *shell.App) *cobra.Command {
	var dir, format string
	var keys []string
	c := shell.Cobra("pull PLACE", "Copy a bundle from a bucket or a folder", `
Copy a bundle that 'kops bundle push' put into a bucket or a folder to a folder of this
computer, for example on the far side of an air gap. Files and parts of images that the
folder has already are not fetched again, and everything is compared with the digests of
the bundle's index. If anything is missing or differs, the folder stays as it was.

With --key, one of the public keys must have signed the bundle.`, `
  kops bundle pull s3://my-files/kops --dir ./bundle
  kops bundle pull s3://my-files/kops --dir ./bundle --key key.pub
  kops bundle pull /mnt/usb/kops -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.JSON, shell.YAML); err != nil {
				return err
			}
			switch {
			case len(args) != 1:
				return shell.Usagef("name one place, such as s3://bucket/folder")
			case strings.HasPrefix(args[0], "oci://"):
				return shell.Usagef("a bundle cannot be pulled from a registry; pull it from the bucket or folder that it was pushed to")
			}
			out, err := pullFrom(ctx, app, strings.TrimSuffix(args[0], "/"), dir, keys)
			if err != nil {
				return err
			}
			return app.PrintAs(format, out, func() error {
				if out.Fetched == 0 {
					app.Printf("%s has everything already; nothing was fetched\n", out.Dir)
					return nil
				}
				app.Printf("Fetched %d files and parts of images to %s: %s; %d were there already\n", out.Fetched, out.Dir, megabytes(out.Bytes), out.Kept)
				return nil
			})
		})
	dirFlag(c, &dir)
	keyFlag(c, &keys)
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.JSON, shell.YAML)
	return c
}

// pullFrom copies a bundle from a place to the flag's folder.
func pullFrom(ctx context.Context, app *shell.App, place, flag string, keyFiles []string) (*pulled, error) {
	dir, err := folder(app, flag)
	if err != nil {
		return nil, err
	}
	keys, err := publicKeys(ctx, app, keyFiles)
	if err != nil {
		return nil, err
	}
	from, err := app.OpenStore(ctx, place)
	if err != nil {
		return nil, err
	}
	_, got, err := bundle.Pull(ctx, from, dir, keys, progress(app))
	return &pulled{got, place, dir, keyFiles}, err
}

package bundle

import (
	"context"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/world"
)

func add(app *shell.App) *cobra.Command {
	var dir, from string
	var arches []string
	c := shell.Cobra("add {IMAGE... | --from ARCHIVE}", "Add your own images to a bundle", `
Add images to a bundle, either from their registry or from an archive that docker save
or podman save wrote. Pods of a cluster on this host can use them at once, under the
same names, because its machines fetch all images from the bundle. Machines do not
fetch a tag again that they already have, so give each build its own tag.`, `
  # from a registry
  kops bundle add registry.example.com/team/app:1.4

  # an image built on this computer, for a cluster on this host
  docker build -t app:dev1 . && docker save app:dev1 -o app.tar
  kops bundle add --from app.tar
  kubectl create deployment app --image app:dev1`,
		func(ctx context.Context, args []string) error {
			dir, err := folder(app, dir)
			if err != nil {
				return err
			}
			o := bundle.Options{Dir: dir, HTTP: world.Client(publishers()), Keychain: authn.DefaultKeychain, Now: app.Now(), Progress: progress(app)}
			if o.Arches, err = addedArches(dir, arches); err != nil {
				return err
			}
			if from != "" {
				if args, err = addSaved(&o, from, args); err != nil {
					return err
				}
			}
			if o.Want.Images = args; len(args) == 0 {
				return shell.Usagef("name an image, or an archive with --from")
			}
			b, err := bundle.Create(ctx, o)
			if err != nil {
				return err
			}
			for _, n := range args {
				digest, _ := b.ImageDigest(n)
				app.Printf("The bundle %s holds %s: %s\n", dir, n, digest)
			}
			return nil
		})
	dirFlag(c, &dir)
	c.Flags().StringVar(&from, "from", "", "archive of images, as docker save writes it (default: fetch each image from its registry)")
	c.Flags().StringSliceVar(&arches, "arch", nil, "architectures to fetch: amd64, arm64 (default: the bundle's architectures)")
	shell.Complete(c, "arch", archNames()...)
	return c
}

// addedArches returns the architectures that a bundle already has, unless others are named.
func addedArches(dir string, names []string) ([]download.Arch, error) {
	out, err := parseArches(names)
	if err != nil || len(out) > 0 {
		return out, err
	}
	b, err := bundle.Open(dir)
	if err != nil && !fault.Is(err, fault.Gone) {
		return nil, err
	}
	if err == nil {
		out = b.Arches()
	}
	if len(out) == 0 {
		out = hostArches()
	}
	return out, nil
}

// addSaved adds images from an archive: the named ones, or all.
func addSaved(o *bundle.Options, archive string, names []string) ([]string, error) {
	has, err := bundle.SavedImages(archive)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = has
	}
	o.Saved = map[string]string{}
	for _, n := range names {
		if !slices.Contains(has, n) {
			return nil, fault.New(fault.Permanent, "%s has no image %s; it has %v", archive, n, has)
		}
		o.Saved[n] = archive
	}
	return names, nil
}

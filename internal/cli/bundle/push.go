package bundle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/mirror"
	"kops.local/kops/world"
)

// pushed is what `kops bundle push` prints.
type pushed struct {
	bundle.Pushed
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	// Spec are the fields by which machines use the copies.
	Spec map[string]string `json:"spec"`
}

func push(app *shell.App) *cobra.Command {
	var dir, format string
	c := shell.Cobra("push PLACE", "Copy a bundle to a bucket, or to a registry", `
Copy a bundle to where machines fetch from. What is there already, by digest, is not
sent again. At the end, the fields of a cluster's spec are printed by which its
machines use the copies.

A bucket (s3://bucket/folder, or a folder of this computer) gets the files, each at the
path of its public URL, with FILE.sha256 beside; the images, as an OCI image layout under
oci/; and bundle.json, which lists all. Machines read it by the web, so its policy has
to let them.

A registry (oci://registry/repository) gets each image, and the files as one OCI
artifact, kops-bundle:latest, which tools such as oras write to a folder. You log in
with docker login.`, `
  kops bundle push s3://my-files/kops --dir ./bundle
  kops bundle push oci://registry.example.com/kops --dir ./bundle
  kops bundle push s3://my-files/kops -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.JSON, shell.YAML); err != nil {
				return err
			}
			if len(args) != 1 {
				return shell.Usagef("name one place, such as s3://bucket/folder or oci://registry/repository")
			}
			b, err := opened(app, dir)
			if err != nil {
				return err
			}
			out, err := pushTo(ctx, app, b, strings.TrimSuffix(args[0], "/"))
			if err != nil {
				return err
			}
			return app.PrintAs(format, out, func() error { out.print(app); return nil })
		})
	dirFlag(c, &dir)
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.JSON, shell.YAML)
	return c
}

// pushTo copies a bundle to a place.
func pushTo(ctx context.Context, app *shell.App, b *bundle.Bundle, place string) (*pushed, error) {
	out := &pushed{To: place, Spec: map[string]string{}}
	start := app.Now()
	var err error
	if repository, ok := strings.CutPrefix(place, "oci://"); ok {
		out.Pushed, err = b.PushImages(ctx, registry(), repository, true, progress(app))
		out.Spec["spec.assets.containerRegistry"] = repository
	} else {
		err = out.toStore(ctx, app, b, place)
	}
	out.Seconds = app.Now().Sub(start).Round(time.Millisecond).Seconds()
	return out, err
}

func (p *pushed) toStore(ctx context.Context, app *shell.App, b *bundle.Bundle, place string) error {
	s, err := app.OpenStore(ctx, place)
	if err != nil {
		return err
	}
	to, err := mirror.NewFiles(ctx, s)
	if err != nil {
		return err
	}
	if p.Pushed, err = b.PushFiles(ctx, to, true, progress(app)); err != nil {
		return err
	}
	if web := s.About().Web; web != nil {
		p.Spec["spec.assets.fileRepository"] = web()
	}
	return nil
}

// registry reaches registries with the credentials of docker login.
func registry() *mirror.Registry {
	return &mirror.Registry{HTTP: world.Transport(), Keychain: authn.DefaultKeychain}
}

func (p *pushed) print(app *shell.App) {
	app.Printf("%s\n", p.summary())
	for _, field := range []string{"spec.assets.fileRepository", "spec.assets.containerRegistry"} {
		if v := p.Spec[field]; v != "" {
			app.Printf("\nMachines use it when the cluster's spec says so:\n\n  kops edit cluster NAME --set %s=%s\n", field, v)
		}
	}
	switch {
	case len(p.Spec) == 0:
		app.Printf("\nNo web server is known for it: machines use it when spec.assets.fileRepository is the URL at which one serves the folder\n")
	case p.Spec["spec.assets.containerRegistry"] == "":
		app.Printf("\nImages are pulled from a registry, and not from there: push them with kops bundle push oci://REGISTRY/REPOSITORY\n")
	default:
		app.Printf("\nFiles are fetched by the web, and not from a registry: push them with kops bundle push s3://BUCKET/FOLDER\n")
	}
}

// summary says what was sent, and how long that took.
func (p *pushed) summary() string {
	switch {
	case p.Sent == 0:
		return fmt.Sprintf("%s has all %d already; nothing was sent", p.To, p.Kept)
	case p.Kept == 0:
		return fmt.Sprintf("Sent %d to %s: %s in %.1f s", p.Sent, p.To, megabytes(p.Bytes), p.Seconds)
	}
	return fmt.Sprintf("Sent %d to %s: %s in %.1f s; %d were there already", p.Sent, p.To, megabytes(p.Bytes), p.Seconds, p.Kept)
}

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

// pushed is the output of `kops bundle push`.
type pushed struct {
	bundle.Pushed
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	// Spec are the fields with which machines use the copies.
	Spec map[string]string `json:"spec"`
}

func push(app *shell.App) *cobra.Command {
	var dir, format string
	c := shell.Cobra("push PLACE", "Copy a bundle to a bucket or a registry", `
Copy a bundle to a place from which machines can fetch it. Contents that are already
there, by digest, are not sent again. At the end, the command prints the fields of the
cluster's spec that make machines use the copies.

A bucket (s3://bucket/folder, or a folder on this computer) gets the files, each under
the path of its public URL with FILE.sha256 next to it; the images, as an OCI image
layout under oci/; and bundle.json, which lists everything. Machines read the bucket
over HTTPS, so its policy must allow that.

A registry (oci://registry/repository) gets each image, and the files as one OCI
artifact, kops-bundle:latest, which tools such as oras write to a folder. Log in with
docker login.`, `
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
			b, err := openBundle(app, dir)
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

// registry returns access to registries with the credentials of docker login.
func registry() *mirror.Registry {
	t := world.Transport()
	t.ResponseHeaderTimeout = 2 * time.Minute // a registry checks the whole image before it answers
	return &mirror.Registry{HTTP: t, Keychain: authn.DefaultKeychain}
}

func (p *pushed) print(app *shell.App) {
	app.Printf("%s\n", p.summary())
	for _, field := range []string{"spec.assets.fileRepository", "spec.assets.containerRegistry"} {
		if v := p.Spec[field]; v != "" {
			app.Printf("\nTo make machines use it, set the cluster's spec:\n\n  kops edit cluster NAME --set %s=%s\n", field, v)
		}
	}
	switch {
	case len(p.Spec) == 0:
		app.Printf("\nkops knows no web server for this folder. To make machines use it, serve the folder and set spec.assets.fileRepository to its URL\n")
	case p.Spec["spec.assets.containerRegistry"] == "":
		app.Printf("\nMachines cannot pull images from there. Push the images to a registry with kops bundle push oci://REGISTRY/REPOSITORY\n")
	default:
		app.Printf("\nMachines cannot fetch files from a registry. Push the files to a bucket with kops bundle push s3://BUCKET/FOLDER\n")
	}
}

// summary says what was sent, and how long that took.
func (p *pushed) summary() string {
	switch {
	case p.Sent == 0:
		return fmt.Sprintf("%s already has all %d; nothing was sent", p.To, p.Kept)
	case p.Kept == 0:
		return fmt.Sprintf("Sent %d to %s: %s in %.1f s", p.Sent, p.To, megabytes(p.Bytes), p.Seconds)
	}
	return fmt.Sprintf("Sent %d to %s: %s in %.1f s; %d were already there", p.Sent, p.To, megabytes(p.Bytes), p.Seconds, p.Kept)
}

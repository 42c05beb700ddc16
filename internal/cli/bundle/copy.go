package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/mirror"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/store"
	"kops.local/kops/world"
)

// Copy copies what a cluster fetches to the mirrors in its spec, using a bundle in the user's
// cache, which is verified and kept.
func Copy(ctx context.Context, app *shell.App, all *kops.Assets) error {
	a := shell.Inside[*pipeline.Assets](all)
	want := bundle.Want{Kops: a.Kops, Kubernetes: a.Kubernetes, Files: map[string]string{}}
	if a.Mirrors.Repository() != "" {
		maps.Copy(want.Files, a.Files)
	}
	if a.Mirrors.Registry() != "" {
		want.Images = a.Images
	}
	if len(want.Files)+len(want.Images) == 0 {
		return fault.Wrap(fault.Permanent, errors.New("the cluster's spec names no mirror to copy to"),
			"set spec.assets.fileRepository or spec.assets.containerRegistry; a containerProxy fetches by itself")
	}
	files, err := repository(ctx, app, a.Mirrors)
	if err != nil {
		return err
	}
	if app.Cache == "" {
		return errors.New("copy: there is no cache folder for the downloads; set HOME")
	}
	dir := filepath.Join(app.Cache, "copies", a.Cluster)
	b, err := bundle.Create(ctx, bundle.Options{Dir: dir, Want: want, Arches: a.Arches, OwnPrograms: filepath.Dir(app.Program), Archive: a.Archive,
		HTTP: world.Client(publishers()), Keychain: authn.DefaultKeychain, Prune: true, Now: app.Now(), Progress: progress(app)})
	if err != nil {
		return fmt.Errorf("nothing was copied: %w", err)
	}
	return copyTo(ctx, app, b.Only(slices.Collect(maps.Keys(want.Files)), want.Images), files, a.Mirrors)
}

// copyTo copies a bundle to the mirrors of a cluster.
func copyTo(ctx context.Context, app *shell.App, b *bundle.Bundle, files store.Store, m assets.Mirrors) error {
	start := app.Now()
	if files != nil {
		to, err := mirror.NewFiles(ctx, files)
		if err != nil {
			return err
		}
		if err := reportCopied(app, m.Repository(), start)(b.PushFiles(ctx, to, false, progress(app))); err != nil {
			return err
		}
	}
	if m.Registry() == "" {
		return nil
	}
	start = app.Now()
	return reportCopied(app, m.Registry(), start)(b.PushImages(ctx, registry(), m.Registry(), false, progress(app)))
}

// reportCopied returns a function that reports what was copied to a place.
func reportCopied(app *shell.App, to string, start time.Time) func(bundle.Pushed, error) error {
	return func(p bundle.Pushed, err error) error {
		if err == nil {
			app.Notef("%s\n", (&pushed{Pushed: p, To: to, Seconds: app.Now().Sub(start).Seconds()}).summary())
		}
		return err
	}
}

// repository opens the store of the cluster's own files; nil if it has none.
func repository(ctx context.Context, app *shell.App, m assets.Mirrors) (store.Store, error) {
	if m.Repository() == "" {
		return nil, nil
	}
	at, ok := layout.StoreURL(m.Repository(), app.Env("S3_ENDPOINT"))
	if !ok {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("spec.assets.fileRepository: %s is a web server, to which kops cannot write", m.Repository()),
			"make a bundle with kops bundle create --name NAME, and put its folder files there; or use the address of a bucket")
	}
	s, err := app.OpenStore(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("spec.assets.fileRepository: %w", errors.New(strings.Replace(err.Error(), "open state store", "open", 1)))
	}
	return s, nil
}

// Package plays is the list of the platforms that can be emulated on this host, and the stage on
// which they are.
//
// It must not know anything else of them.
package plays

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"kops.local/kops/internal/platform"
	aws "kops.local/kops/internal/platform/aws/rehearsal"
	gce "kops.local/kops/internal/platform/gce/rehearsal"
	hetzner "kops.local/kops/internal/platform/hetzner/rehearsal"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/stage"
	"kops.local/kops/internal/platform/rehearsal"
)

// All lists the platforms, the default first.
func All() []rehearsal.Platform {
	return []rehearsal.Platform{
		{Name: "aws", Check: aws.Check, Start: aws.Start},
		{Name: "gce", Check: gce.Check, Start: gce.Start},
		{Name: "hetzner", Check: hetzner.Check, Start: hetzner.Start},
	}
}

// DefaultRoot is the folder of a rehearsal.
const DefaultRoot = "/var/lib/kops-rehearsal"

// Stage returns the function that opens a stage on this host. Of the world it uses the cache, the
// bundle and the log.
func Stage(w platform.World) rehearsal.Opener {
	return func(ctx context.Context, o rehearsal.StageOptions) (rehearsal.OpenStage, error) {
		if err := ground.CheckWithCache(w.Cache); err != nil {
			return nil, err
		}
		return stage.Open(ctx, stage.Options{Root: cmp.Or(o.Root, DefaultRoot), Cache: filepath.Join(w.Cache, "local"), Run: ground.RunFolder, Bundle: w.Bundle, Log: o.Log, Output: w.Log, Now: time.Now})
	}
}

package update

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops"
	clibundle "kops.local/kops/internal/cli/bundle"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/pipeline"
)

// checkRehearsal refuses to create a cluster in a rehearsal if the bundle is missing files that its
// machines fetch, and warns about missing images: machines can reach nothing else there.
func checkRehearsal(ctx context.Context, app *shell.App, client *kops.Client, name string, o options) error {
	if !app.Rehearses() || o.plan != "" {
		return nil
	}
	cl, err := client.Clusters().Get(ctx, name)
	if err != nil {
		return err
	}
	found, err := client.Assets(ctx, cl, kops.AssetsOptions{Facts: o.Facts})
	if err != nil {
		return err
	}
	b, err := bundle.Open(app.Bundle())
	if err != nil {
		return err
	}
	a := shell.Inside[*pipeline.Assets](found)
	files, images := missingItems(b.Missing(clibundle.WantOf(a), a.Arches))
	const remedy = "leave the rehearsal, complete its bundle and start it again: docs/rehearsal.md, \"The bundle\""
	if len(files) > 0 {
		return fault.Wrap(fault.Permanent, fmt.Errorf("machines of %s would not start: in a rehearsal they fetch only from the bundle %s, and it lacks %s", name, b.Dir(), strings.Join(append(files, images...), ", ")), remedy)
	}
	if len(images) > 0 {
		app.Notef("warning: pods of these images would not start, as the bundle %s lacks them: %s; %s\n", b.Dir(), strings.Join(images, ", "), remedy)
	}
	return nil
}

// missingItems returns the files and images among differences that a bundle does not have, except for
// kops' own programs, which machines get from the cluster's store.
func missingItems(all []bundle.Difference) (files, images []string) {
	for _, d := range all {
		switch {
		case d.State == bundle.More || programs.IsOwn(d.Name):
		case strings.Contains(d.Name, "://"):
			files = append(files, d.Name)
		default:
			images = append(images, d.Name)
		}
	}
	slices.Sort(files)
	slices.Sort(images)
	return files, images
}

package pipeline

import (
	"context"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/ops/delivery"
)

// programs returns the input with kops' own programs, as they are delivered with the cluster, and
// the archive that contains them. If there is no archive, the model gets the reason; an archive
// that cannot be used is an error.
func (k *Known) programs(ctx context.Context, in model.Input) (model.Input, *delivery.Archive, error) {
	in.Own.Instead, in.Own.Base, in.Arch = k.World.OwnImages, k.World.Programs.Base, k.World.Arch
	in.PluginsURL = k.World.PluginsURL
	if in.Facts.Of(string(in.Traits.Name)).Bundle != "" {
		return in, nil, nil // the bundle has them, too
	}
	places := k.World.Programs
	if k.World.Offline {
		places.Releases = ""
	}
	a, err := places.Find(ctx)
	if fault.Is(err, fault.Gone) {
		in.Own.Unfound, in.Own.Remedy = err.Error(), fault.Remedy(err)
		return in, nil, nil
	}
	if err != nil {
		return in, nil, err
	}
	in.Own.Programs, in.Deliver = a.Index, k.Places.clusterFolder.List != nil
	return in, a, nil
}

package pipeline

import (
	"context"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/ops/delivery"
)

// programs returns the input with kops' own programs, as they travel with the cluster,
// and the archive that holds them. That there is none is told by the model; one that
// cannot be used is an error.
func (g *Gathered) programs(ctx context.Context, in model.Input) (model.Input, *delivery.Archive, error) {
	in.Own.Instead, in.Own.Base, in.Arch = g.World.OwnImages, g.World.Programs.Base, g.World.Arch
	if in.Facts.Of(string(in.Traits.Name)).Bundle != "" {
		return in, nil, nil // which has them, too
	}
	places := g.World.Programs
	if g.World.Offline {
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
	in.Own.Programs, in.Deliver = a.Index, g.Places.own.List != nil
	return in, a, nil
}

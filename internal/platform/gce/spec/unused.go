package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
)

// unused are the fields that are accepted on GCE and change nothing.
func unused() []traits.Unused {
	const nothing = "remove it; it does not exist on GCE"
	return []traits.Unused{
		{Kind: api.KindCluster, Blocks: []string{"cloudProvider.gce"}, Names: []string{"binariesLocation"}, Remedy: "remove it; see spec.assets.fileRepository"},
		{Kind: api.KindCluster, Names: []string{"networking.tagSubnets"}, Remedy: "remove it; subnets have no labels"},
	}
}

package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/incluster/roster"
)

// rosterPeriod is how often Compute Engine is queried for deleted machines, with one request per
// zone.
const rosterPeriod = 30 * time.Second

// newRoster reports which nodes have lost their instances, on the node self.
func newRoster(p *project, self string) *roster.Roster {
	return &roster.Roster{Source: "Compute Engine's list of machines", Self: self, IsUnknown: p.isUnknown, List: func(ctx context.Context, _ []string) ([]roster.Machine, error) {
		all, err := p.list.Machines(ctx)
		if err != nil {
			return nil, fmt.Errorf("find deleted machines in Compute Engine: %w", err)
		}
		return all, nil
	}}
}

// isUnknown reports whether Compute Engine does not know a node's instance, whatever its labels. It
// returns false for nodes of other projects or regions, and for nodes that the cloud controller has
// not found yet.
func (p *project) isUnknown(ctx context.Context, n *corev1.Node) (bool, error) {
	zone, name, _ := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, providerPrefix+p.name+"/"), "/")
	if name != n.Name || gcerest.RegionOf(zone) != p.region {
		return false, nil
	}
	_, err := p.get(ctx, zone, name)
	if fault.Is(err, fault.Gone) {
		return true, nil
	}
	return false, err
}

package control

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/incluster/roster"
)

// groups finds the groups of nodes by their instances.
type groups struct {
	*roster.Groups[gcerest.Instance]
}

var (
	_ controller.Groups   = groups{}
	_ controller.Prefixes = groups{}
)

// newGroups returns the groups of a project's instances: the instance group of the template from which
// an instance was created, because its metadata is only a claim.
func newGroups(stored controller.Stored, p *project) groups {
	return groups{&roster.Groups[gcerest.Instance]{Stored: stored, List: p.list, Confirm: func(ctx context.Context, i gcerest.Instance) (string, error) {
		return p.Member(ctx, vtpm.Instance{ID: i.ID, Manager: p.managerPath(i)})
	}}}
}

// Prefix returns the IPv6 range that Compute Engine routes to the instance's first interface, a /96
// (VPC, "IPv6 addresses": the first 96 bits are assigned to an interface).
func (g groups) Prefix(ctx context.Context, n *corev1.Node) (string, error) {
	m, err := g.List.Of(ctx, n)
	if err != nil {
		return "", err
	}
	i := m.Own
	if len(i.NetworkInterfaces) == 0 {
		return "", fault.New(fault.NotYet, "the instance %s has no network interface", i.Name)
	}
	var found []netip.Prefix
	for _, a := range i.NetworkInterfaces[0].IPv6Access {
		if a.IPv6 == "" {
			continue
		}
		at, err := netip.ParseAddr(a.IPv6)
		if err != nil {
			return "", fault.New(fault.Permanent, "the instance %s has the address %q: %w", i.Name, a.IPv6, err)
		}
		found = append(found, netip.PrefixFrom(at, a.PrefixLength).Masked())
	}
	switch {
	case len(found) == 0:
		return "", fault.New(fault.NotYet, "the instance %s has no IPv6 range yet", i.Name)
	case len(found) > 1:
		return "", fault.New(fault.Permanent, "the instance %s has %d IPv6 ranges; it must have one", i.Name, len(found))
	case !found[0].IsValid():
		return "", fault.New(fault.Permanent, "the instance %s has an IPv6 range without a prefix length", i.Name)
	}
	return found[0].String(), nil
}

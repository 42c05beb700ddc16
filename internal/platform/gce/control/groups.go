package control

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
)

// providerPrefix is the prefix of provider IDs, which the cloud controller sets:
// gce://PROJECT/ZONE/INSTANCE.
const providerPrefix = "gce://"

// groupFinder finds the group of a node by its instance. A node is identified by its name, which
// its certificate contains; everything else is claimed by the kubelet or set later by the cloud
// controller. If a node has a provider ID, it must match.
type groupFinder struct {
	controller.Stored
	project *project

	mu sync.Mutex
	// known are the groups found so far: an instance never changes its group.
	known map[nodeKey]string
}

// nodeKey is a node and its instance; the node can change neither.
type nodeKey struct {
	node     types.UID
	instance string
}

// maxKnown bounds the cache of nodes' groups.
const maxKnown = 1 << 14

var (
	_ controller.Groups   = (*groupFinder)(nil)
	_ controller.Prefixes = (*groupFinder)(nil)
)

// machine returns the instance of a node.
func (o *groupFinder) machine(ctx context.Context, n *corev1.Node) (gcerest.Instance, error) {
	o.project.mu.Lock()
	defer o.project.mu.Unlock()
	i, err := o.project.findInstance(ctx, n.Name)
	switch id := n.Spec.ProviderID; {
	case err != nil:
		return i, err
	case id != "" && id != o.project.providerID(i):
		return i, fault.New(fault.Gone, "the node %s reports the machine %s, but its machine is %s", n.Name, id, o.project.providerID(i))
	case i.Status != "RUNNING":
		return i, fault.New(fault.NotYet, "the node's instance %s is not running: its status is %s", i.Name, i.Status)
	}
	return i, nil
}

func (p *project) providerID(i gcerest.Instance) string {
	return providerPrefix + strings.Join([]string{p.name, gcerest.BaseName(i.Zone), i.Name}, "/")
}

// GroupOf returns the instance group of the template from which the node's instance was created.
func (o *groupFinder) GroupOf(ctx context.Context, n *corev1.Node) (string, error) {
	i, err := o.machine(ctx, n)
	if err != nil {
		return "", err
	}
	of := nodeKey{n.UID, i.ID}
	o.mu.Lock()
	group := o.known[of]
	o.mu.Unlock()
	if group != "" {
		return group, nil
	}
	group, err = o.project.Member(ctx, vtpm.Instance{ID: i.ID, Manager: o.project.managerPath(i)})
	if err != nil {
		return "", fmt.Errorf("find the group of the instance %s: %w", i.Name, err)
	}
	if said := i.Metadata.Get(gcecloud.MetadataGroup); said != group {
		return "", fault.New(fault.Gone, "the instance %s claims to be in the instance group %q, but is in %s", i.Name, said, group)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxKnown {
		o.known = map[nodeKey]string{}
	}
	o.known[of] = group
	return group, nil
}

// Prefix returns the IPv6 range that Compute Engine routes to the instance's first interface, a /96
// (VPC, "IPv6 addresses": the first 96 bits are assigned to an interface).
func (o *groupFinder) Prefix(ctx context.Context, n *corev1.Node) (string, error) {
	i, err := o.machine(ctx, n)
	if err != nil {
		return "", err
	}
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

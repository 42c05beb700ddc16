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

// providerPrefix begins what the cloud's controller calls the machine of a node: gce://PROJECT/ZONE/INSTANCE.
const providerPrefix = "gce://"

// onInstances finds the group of a node by its instance. A node is known by its name, which
// its certificate holds: anything else a kubelet says of itself, and the cloud's controller
// says later what it is. Where a node has a provider's identifier, it has to agree.
type onInstances struct {
	controller.Stored
	project *project

	mu sync.Mutex
	// known are the groups of nodes that were found: an instance never changes its group.
	known map[nodeOf]string
}

// nodeOf is a node and its instance, neither of which the node can make another.
type nodeOf struct {
	node     types.UID
	instance string
}

// mostKnown bounds the memory for groups of nodes.
const mostKnown = 1 << 14

var (
	_ controller.Groups   = (*onInstances)(nil)
	_ controller.Prefixes = (*onInstances)(nil)
)

// machine looks up the instance of a node.
func (o *onInstances) machine(ctx context.Context, n *corev1.Node) (gcerest.Instance, error) {
	o.project.mu.Lock()
	defer o.project.mu.Unlock()
	i, err := o.project.named(ctx, n.Name)
	switch id := n.Spec.ProviderID; {
	case err != nil:
		return i, err
	case id != "" && id != o.project.providerID(i):
		return i, fault.New(fault.Gone, "the node %s says that its machine is %s, and it is %s", n.Name, id, o.project.providerID(i))
	case i.Status != "RUNNING":
		return i, fault.New(fault.NotYet, "the instance %s of the node does not run: its status is %s", i.Name, i.Status)
	}
	return i, nil
}

func (p *project) providerID(i gcerest.Instance) string {
	return providerPrefix + strings.Join([]string{p.name, gcerest.Last(i.Zone), i.Name}, "/")
}

// GroupOf returns the instance group of the template that the node's instance was made of.
func (o *onInstances) GroupOf(ctx context.Context, n *corev1.Node) (string, error) {
	i, err := o.machine(ctx, n)
	if err != nil {
		return "", err
	}
	of := nodeOf{n.UID, i.ID}
	o.mu.Lock()
	group := o.known[of]
	o.mu.Unlock()
	if group != "" {
		return group, nil
	}
	group, err = o.project.Member(ctx, vtpm.Instance{ID: i.ID, Maker: o.project.maker(i)})
	if err != nil {
		return "", fmt.Errorf("find the group of the instance %s: %w", i.Name, err)
	}
	if said := i.Metadata.Get(gcecloud.MetadataGroup); said != group {
		return "", fault.New(fault.Gone, "the instance %s says that it is of the instance group %q, and is of %s", i.Name, said, group)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= mostKnown {
		o.known = map[nodeOf]string{}
	}
	o.known[of] = group
	return group, nil
}

// Prefix returns the range of IPv6 that Compute leads to the instance's first interface, /96
// (VPC, "IPv6 addresses": an interface has the first 96 bits).
func (o *onInstances) Prefix(ctx context.Context, n *corev1.Node) (string, error) {
	i, err := o.machine(ctx, n)
	if err != nil {
		return "", err
	}
	if len(i.NetworkInterfaces) == 0 {
		return "", fault.New(fault.NotYet, "the instance %s has no interface", i.Name)
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
		return "", fault.New(fault.NotYet, "the instance %s has no range of IPv6 yet", i.Name)
	case len(found) > 1:
		return "", fault.New(fault.Permanent, "the instance %s has %d ranges of IPv6; there has to be one", i.Name, len(found))
	case !found[0].IsValid():
		return "", fault.New(fault.Permanent, "the instance %s has no range of IPv6 with a length", i.Name)
	}
	return found[0].String(), nil
}

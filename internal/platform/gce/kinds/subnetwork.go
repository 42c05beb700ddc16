package kinds

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// Subnetwork is an address range of a network in one region.
type Subnetwork struct {
	Name    string         `res:"forbid" tf:"name"`
	Network resource.Value `res:"forbid" tf:"network"` // Network.ID
	Region  string         `res:"forbid" tf:"region"`
	CIDR    string         `res:"forbid" tf:"ip_cidr_range"`
	// StackType is IPV4_ONLY, IPV4_IPV6 or IPV6_ONLY; IPv6Access is EXTERNAL or INTERNAL, if there
	// is IPv6.
	StackType  string           `tf:"stack_type"`
	IPv6Access string           `tf:"ipv6_access_type"`
	Secondary  []SecondaryRange `tf:"secondary_ip_range,block"`

	// ID is projects/P/regions/R/subnetworks/N.
	ID string `res:"out,id" out:"id" tf:"name"`
}

// SecondaryRange is an address range for pods or services.
type SecondaryRange struct {
	Name string `tf:"range_name"`
	CIDR string `tf:"ip_cidr_range"`
}

// Subnetworks is the kind of Subnetwork. A shared one is adopted by its ID.
var Subnetworks = resource.Kind[Subnetwork, *Client]{
	Name:  "google_compute_subnetwork",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Subnet"},
	Early: true,
	Key:   func(s *Subnetwork) string { return s.Name },
	List:  listSubnetworks,
	Create: func(ctx context.Context, c *Client, s *Subnetwork) error {
		s.ID = c.regional("subnetworks", s.Name)
		return c.Await(ctx)(c.Compute.Subnetworks.Insert(c.Project, s.Region, &compute.Subnetwork{Name: s.Name, Network: networkURL(s.Network), IpCidrRange: s.CIDR,
			StackType: s.StackType, Ipv6AccessType: s.IPv6Access, SecondaryIpRanges: s.ranges()}).Context(ctx).Do())
	},
	Update: []resource.Setter[Subnetwork, *Client]{
		{Fields: []string{"StackType", "IPv6Access"}, Set: func(ctx context.Context, c *Client, have, want *Subnetwork) error {
			return patchSubnetwork(ctx, c, have, func(p, _ *compute.Subnetwork) bool {
				p.StackType, p.Ipv6AccessType = want.StackType, want.IPv6Access
				return true
			})
		}},
		{Fields: []string{"Secondary"}, Set: setSecondary},
	},
	Delete: func(ctx context.Context, c *Client, s *Subnetwork) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Subnetworks.Delete(c.Project, s.Region, s.Name).Context(ctx).Do()))
	},
}

// regional returns the link of a regional object.
func (c *Client) regional(collection, name string) string {
	return "projects/" + c.Project + "/regions/" + c.Region + "/" + collection + "/" + name
}

// listSubnetworks finds the cluster's subnetworks in its own network, its subnetworks in another
// network, and the shared ones.
func listSubnetworks(ctx context.Context, c *Client, s resource.Scope) ([]*Subnetwork, error) {
	w, err := newWorld(ctx, c, s)
	if err != nil {
		return nil, err
	}
	list, err := c.allSubnetworks(ctx)
	out, err := selectObjects(list, err, func(d *compute.Subnetwork) bool {
		return w.isWanted(d.Name) || slices.Contains(s.Adopted, gceapi.Link(d.SelfLink)) || w.ownSubnetwork(d)
	}, subnetworkOf)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(s.Adopted), func(id string) bool { // those in another project
		return slices.ContainsFunc(out, func(n *Subnetwork) bool { return n.ID == id })
	})
	shared, err := observe.Each(ctx, others, func(ctx context.Context, id string) (*Subnetwork, error) {
		d, err := gceapi.Result(c.Compute.Subnetworks.Get(gceapi.Place(id, "projects"), gceapi.Place(id, "regions"), gceapi.Name(id)).Context(ctx).Do())
		if err != nil {
			if fault.IgnoreGone(err) == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("look for the subnetwork %s: %w", id, err)
		}
		return subnetworkOf(d), nil
	})
	return append(out, shared...), err
}

func subnetworkOf(d *compute.Subnetwork) *Subnetwork {
	s := &Subnetwork{Name: d.Name, Network: networkRef(d.Network), Region: gceapi.Name(d.Region), CIDR: d.IpCidrRange, StackType: cmp.Or(d.StackType, onlyIPv4), IPv6Access: d.Ipv6AccessType,
		ID: gceapi.Link(d.SelfLink)}
	for _, r := range d.SecondaryIpRanges {
		s.Secondary = append(s.Secondary, SecondaryRange{Name: r.RangeName, CIDR: r.IpCidrRange})
	}
	return s
}

func (s *Subnetwork) ranges() []*compute.SubnetworkSecondaryRange {
	var out []*compute.SubnetworkSecondaryRange
	for _, r := range s.Secondary {
		out = append(out, &compute.SubnetworkSecondaryRange{RangeName: r.Name, IpCidrRange: r.CIDR})
	}
	return out
}

// setSecondary adds ranges before it removes others, because machines may use the old ones until
// their template changes.
func setSecondary(ctx context.Context, c *Client, have, want *Subnetwork) error {
	wanted := want.ranges()
	merge := func(current []*compute.SubnetworkSecondaryRange) []*compute.SubnetworkSecondaryRange {
		for _, r := range wanted {
			if !slices.ContainsFunc(current, func(o *compute.SubnetworkSecondaryRange) bool { return o.RangeName == r.RangeName }) {
				current = append(current, r)
			}
		}
		return current
	}
	err := patchSubnetwork(ctx, c, have, func(p, current *compute.Subnetwork) bool {
		p.SecondaryIpRanges = merge(slices.Clip(current.SecondaryIpRanges))
		return len(p.SecondaryIpRanges) > len(current.SecondaryIpRanges)
	})
	if err != nil {
		return err
	}
	return patchSubnetwork(ctx, c, have, func(p, current *compute.Subnetwork) bool {
		p.SecondaryIpRanges, p.ForceSendFields = wanted, []string{"SecondaryIpRanges"}
		return !slices.EqualFunc(wanted, current.SecondaryIpRanges, func(a, b *compute.SubnetworkSecondaryRange) bool {
			return a.RangeName == b.RangeName && a.IpCidrRange == b.IpCidrRange
		})
	})
}

// patchSubnetwork patches a subnetwork given its current state, unless change returns false.
func patchSubnetwork(ctx context.Context, c *Client, s *Subnetwork, change func(patch, current *compute.Subnetwork) bool) error {
	current, err := gceapi.Result(c.Compute.Subnetworks.Get(c.Project, s.Region, s.Name).Context(ctx).Do())
	if err != nil {
		return err
	}
	patch := &compute.Subnetwork{Fingerprint: current.Fingerprint}
	if !change(patch, current) {
		return nil
	}
	return c.Await(ctx)(c.Compute.Subnetworks.Patch(c.Project, s.Region, s.Name, patch).Context(ctx).Do())
}

// ownSubnetwork reports whether a subnetwork is the cluster's: its name says so, and it is either
// in the cluster's own network or used by the cluster's templates.
func (w *world) ownSubnetwork(d *compute.Subnetwork) bool {
	_, ok := gcename.Part(d.Name, w.cluster)
	return ok && !w.isOthersName(d.Name) && (networkID(d.Network) == w.network || w.usedObjects[gceapi.Link(d.SelfLink)])
}

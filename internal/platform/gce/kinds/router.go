package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// Router is a regional router. Its NATs are RouterNATs.
type Router struct {
	Name    string         `res:"forbid" tf:"name"`
	Network resource.Value `res:"forbid" tf:"network"` // Network.ID

	ID string `res:"out,id" out:"id" tf:"name"`
}

// Routers is the kind of Router.
var Routers = resource.Kind[Router, *Client]{
	Name:  "google_compute_router",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Router"},
	Early: true,
	Key:   func(r *Router) string { return r.Name },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Router, error) {
		list, err := c.ownRouters(ctx, s)
		return selectObjects(list, err, func(*compute.Router) bool { return true }, func(d *compute.Router) *Router {
			return &Router{Name: d.Name, Network: networkRef(d.Network), ID: gceapi.Link(d.SelfLink)}
		})
	},
	Create: func(ctx context.Context, c *Client, r *Router) error {
		r.ID = c.regional("routers", r.Name)
		return c.Await(ctx)(c.Compute.Routers.Insert(c.Project, c.Region, &compute.Router{Name: r.Name, Network: networkURL(r.Network)}).Context(ctx).Do())
	},
	Delete: func(ctx context.Context, c *Client, r *Router) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Routers.Delete(c.Project, c.Region, r.Name).Context(ctx).Do()))
	},
}

// ownRouters returns the routers of the cluster. Its only one has the name of its only NAT.
func (c *Client) ownRouters(ctx context.Context, s resource.Scope) ([]*compute.Router, error) {
	list, err := c.allRouters(ctx)
	w := world{Scope: s, cluster: s.Cluster}
	return slices.DeleteFunc(slices.Clone(list), func(d *compute.Router) bool { return !w.isWanted(d.Name) && !w.isOwnName(d.Name, "nat") }), err
}

// RouterNAT gives machines without public addresses access to the Internet. It is part of its
// router: a patch of the router with the complete list of NATs creates, changes or removes it.
type RouterNAT struct {
	Name        string          `res:"forbid" tf:"name"`
	Router      resource.Value  `res:"forbid" tf:"router"` // Router.ID
	Region      string          `res:"forbid" tf:"region"`
	Allocation  string          `tf:"nat_ip_allocate_option"`             // "AUTO_ONLY"
	Source      string          `tf:"source_subnetwork_ip_ranges_to_nat"` // "LIST_OF_SUBNETWORKS"
	Subnetworks []NATSubnetwork `tf:"subnetwork,block"`
}

// NATSubnetwork is a subnetwork whose addresses are translated.
type NATSubnetwork struct {
	Subnetwork resource.Value `tf:"name"`                    // Subnetwork.ID
	Ranges     []string       `tf:"source_ip_ranges_to_nat"` // "ALL_IP_RANGES"
}

// RouterNATs is the kind of RouterNAT.
var RouterNATs = resource.Kind[RouterNAT, *Client]{
	Name:   "google_compute_router_nat",
	API:    apiCompute,
	Phase:  resource.Network,
	Tasks:  []string{"RouterNAT"},
	Early:  true,
	Key:    func(n *RouterNAT) string { return n.Name },
	List:   listNATs,
	Create: setNAT,
	Update: []resource.Setter[RouterNAT, *Client]{{Fields: []string{"Allocation", "Source", "Subnetworks"},
		Set: func(ctx context.Context, c *Client, _, want *RouterNAT) error { return setNAT(ctx, c, want) }}},
	Delete: func(ctx context.Context, c *Client, n *RouterNAT) error {
		return fault.IgnoreGone(patchNATs(ctx, c, n, nil))
	},
}

// listNATs finds the NATs of the cluster's routers, which may also have other NATs.
func listNATs(ctx context.Context, c *Client, s resource.Scope) ([]*RouterNAT, error) {
	routers, err := c.ownRouters(ctx, s) // a router and its NAT have the same name
	var out []*RouterNAT
	for _, r := range routers {
		for _, n := range r.Nats {
			if n.Name == r.Name {
				out = append(out, natOf(r, n))
			}
		}
	}
	return out, err
}

func natOf(r *compute.Router, d *compute.RouterNat) *RouterNAT {
	n := &RouterNAT{Name: d.Name, Router: link(r.SelfLink), Region: gceapi.Name(r.Region), Allocation: d.NatIpAllocateOption, Source: d.SourceSubnetworkIpRangesToNat}
	for _, s := range d.Subnetworks {
		n.Subnetworks = append(n.Subnetworks, NATSubnetwork{Subnetwork: link(s.Name), Ranges: s.SourceIpRangesToNat})
	}
	return n
}

func setNAT(ctx context.Context, c *Client, n *RouterNAT) error {
	return patchNATs(ctx, c, n, func(d *compute.RouterNat) {
		d.NatIpAllocateOption, d.SourceSubnetworkIpRangesToNat, d.Subnetworks = n.Allocation, n.Source, nil
		for _, s := range n.Subnetworks {
			d.Subnetworks = append(d.Subnetworks, &compute.RouterNatSubnetworkToNat{Name: url(s.Subnetwork), SourceIpRangesToNat: s.Ranges})
		}
	})
}

// patchNATs writes the NATs of a router: the existing ones with one changed or added, or removed if
// change is nil. Routers have no fingerprint, so the writes of this process are serialized.
func patchNATs(ctx context.Context, c *Client, n *RouterNAT, change func(*compute.RouterNat)) error {
	name := gceapi.Name(n.Router.Text())
	defer c.lock("router " + name)()
	r, err := gceapi.Result(c.Compute.Routers.Get(c.Project, n.Region, name).Context(ctx).Do())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.Nats, func(d *compute.RouterNat) bool { return d.Name == n.Name })
	switch {
	case change == nil && i < 0:
		return nil
	case change == nil:
		r.Nats = slices.Delete(r.Nats, i, i+1)
	case i < 0:
		d := &compute.RouterNat{Name: n.Name}
		change(d)
		r.Nats = append(r.Nats, d)
	default:
		change(r.Nats[i])
	}
	err = c.Await(ctx)(c.Compute.Routers.Patch(c.Project, n.Region, name, &compute.Router{Nats: r.Nats, ForceSendFields: []string{"Nats"}}).Context(ctx).Do())
	if fault.Is(err, fault.Gone) && change != nil {
		return fault.Wrap(fault.NotYet, err, "")
	}
	return err
}

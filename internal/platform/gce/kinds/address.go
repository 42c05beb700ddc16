package kinds

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// internal is the type of addresses, and the scheme of forwarding rules, within a network.
const internal = "INTERNAL"

// Address is a reserved regional address, public if Type is empty.
type Address struct {
	Name       string         `res:"forbid" tf:"name"`
	Type       string         `res:"forbid" tf:"address_type"` // "" or "INTERNAL"
	Purpose    string         `res:"forbid" tf:"purpose"`      // "SHARED_LOADBALANCER_VIP": several rules may share it
	Subnetwork resource.Value `res:"forbid" tf:"subnetwork"`   // Subnetwork.ID

	ID      string `res:"out,id" out:"id" tf:"self_link"`
	Address string `res:"out,id" out:"address"` // the IP address, to which forwarding rules refer
}

// Addresses is the kind of Address.
var Addresses = resource.Kind[Address, *Client]{
	Name:   "google_compute_address",
	API:    apiCompute,
	Phase:  resource.Security,
	Tasks:  []string{"Address"},
	Early:  true,
	Key:    func(a *Address) string { return a.Name },
	List:   listAddresses,
	Create: createAddress,
	Ready: func(ctx context.Context, c *Client, a *Address) error {
		if a.Address == "" {
			return fault.New(fault.NotYet, "address %s is not reserved yet", a.Name)
		}
		return nil
	},
	Delete: func(ctx context.Context, c *Client, a *Address) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Addresses.Delete(c.Project, c.Region, a.Name).Context(ctx).Do()))
	},
}

func listAddresses(ctx context.Context, c *Client, s resource.Scope) ([]*Address, error) {
	w, err := newWorld(ctx, c, s)
	if err != nil {
		return nil, err
	}
	rules, err := w.forwardingRules(ctx, c)
	if err != nil {
		return nil, err
	}
	subnetworks, err := c.allSubnetworks(ctx)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{} // links of the subnetworks that kops created for the cluster
	for _, n := range subnetworks {
		own[gceapi.Link(n.SelfLink)] = w.ownSubnetwork(n)
	}
	list, err := c.allAddresses(ctx)
	return selectObjects(list, err, func(d *compute.Address) bool {
		return w.isWanted(d.Name) || w.ownAddress(d, rules, own, c.Region)
	}, addressOf)
}

// ownAddress reports whether an address belongs to the cluster. The name of an internal address
// contains a subnet of the spec: the address is the cluster's if one of its rules uses it, if its
// subnetwork is the cluster's and is named after that subnet, or if the cluster uses its subnetwork
// and the subnet has the name of the subnetwork or of the region.
func (w *world) ownAddress(d *compute.Address, rules []*compute.ForwardingRule, own map[string]bool, region string) bool {
	if d.AddressType != internal {
		return w.isOwnName(d.Name, "api")
	}
	object, ok := gcename.Part(d.Name, w.cluster)
	balancer, subnet, perSubnet := strings.Cut(object, "-")
	if !ok || !perSubnet || balancer != "api" && balancer != "etcd" {
		return false
	}
	at := gceapi.Link(d.Subnetwork) // every network has the same internal addresses
	if d.Address != "" && slices.ContainsFunc(rules, func(r *compute.ForwardingRule) bool {
		return r.IPAddress == d.Address && gceapi.Link(r.Subnetwork) == at
	}) {
		return true
	}
	if own[at] {
		return w.isOwnName(gceapi.Name(at), subnet)
	}
	return w.usedObjects[at] && !w.isOthersName(d.Name) && (subnet == region || subnet == gceapi.Name(at))
}

func addressOf(d *compute.Address) *Address {
	a := &Address{Name: d.Name, Type: d.AddressType, Purpose: d.Purpose, Subnetwork: link(d.Subnetwork), ID: gceapi.Link(d.SelfLink), Address: d.Address}
	if a.Type != internal {
		a.Type, a.Purpose = "", ""
	}
	return a
}

// createAddress reads the address after reserving it, because the operation does not return it.
func createAddress(ctx context.Context, c *Client, a *Address) error {
	a.ID = c.regional("addresses", a.Name)
	err := c.Await(ctx)(c.Compute.Addresses.Insert(c.Project, c.Region, &compute.Address{Name: a.Name, AddressType: a.Type, Purpose: a.Purpose,
		Subnetwork: url(a.Subnetwork)}).Context(ctx).Do())
	if err != nil {
		return err
	}
	current, err := gceapi.Result(c.Compute.Addresses.Get(c.Project, c.Region, a.Name).Context(ctx).Do())
	if err == nil {
		a.Address = current.Address
	}
	return err
}

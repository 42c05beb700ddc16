package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
)

// Network is a private network with one subnet, which has all of its range.
type Network struct {
	Name string `res:"forbid" tf:"name"`
	CIDR string `res:"forbid" tf:"ip_range"`
	// Zone is the network zone of the subnet; observed "" if there is no subnet.
	Zone   string
	Labels Labels `tf:"labels"`

	ID string `res:"out,id" out:"id"`
	// Adopted is how the cluster names a shared network: its name or its number.
	Adopted string `res:"out,id"`
}

// Networks is the kind of Network.
var Networks = resource.Kind[Network, *Client]{
	Name:  "hcloud_network",
	API:   api,
	Phase: resource.Network,
	Tasks: []string{"Network"},
	Early: true,
	Key:   func(n *Network) string { return n.Name },
	List:  listNetworks,
	Create: func(ctx context.Context, c *Client, n *Network) error {
		return create(ctx, c, "networks", &n.ID, map[string]any{
			"name": n.Name, "ip_range": n.CIDR, "labels": n.Labels, "subnets": []any{subnetRequest(n)}})
	},
	Update: []resource.Setter[Network, *Client]{
		{Fields: []string{"Zone"}, Set: func(ctx context.Context, c *Client, have, want *Network) error {
			if have.Zone != "" {
				return fault.Wrap(fault.Permanent, fmt.Errorf("the subnet of the network %s is in the network zone %s", have.Name, have.Zone),
					"undo the change to the zones of spec.subnets: all machines of a cluster are in one network zone")
			}
			return c.Act(ctx, have.ID, "add_subnet", subnetRequest(want))
		}},
		relabel(func(n *Network) (string, Labels) { return n.ID, n.Labels }),
	},
	Delete: deleteNetwork,
	Companions: func(a resource.Address, n *Network) []resource.Node {
		return []resource.Node{Subnets.New(n.Name+"-"+n.CIDR, subnet{Network: resource.Out(a, "id"), Type: subnetType, CIDR: n.CIDR, Zone: n.Zone})}
	},
}

// deleteNetwork deletes a network, unless something is attached to it: the API would detach what others
// have there.
func deleteNetwork(ctx context.Context, c *Client, n *Network) error {
	now, err := hetznerapi.Get[hetznerapi.Network](ctx, c.Client, n.ID)
	if err != nil {
		return fault.IgnoreGone(err)
	}
	var names []string
	for kind, attached := range map[string][]int64{"servers": now.Servers, "load_balancers": now.LoadBalancers} {
		for _, id := range attached {
			o, err := hetznerapi.Get[hetznerapi.Object](ctx, c.Client, hetznerapi.Path(kind, id))
			if err != nil {
				return err
			}
			names = append(names, o.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return fault.Wrap(fault.Conflict, fmt.Errorf("the network %s still has servers or load balancers: %s", n.Name, strings.Join(names, ", ")), "detach or delete them")
	}
	return c.Delete(ctx, n.ID)
}

// subnetType is the type of subnets for servers in the cloud.
const subnetType = "cloud"

func subnetRequest(n *Network) hetznerapi.Subnet {
	return hetznerapi.Subnet{Type: subnetType, IPRange: n.CIDR, NetworkZone: n.Zone}
}

// subnet is Terraform's resource for the subnet of a network.
type subnet struct {
	Network resource.Value `tf:"network_id"`
	Type    string         `tf:"type"`
	CIDR    string         `tf:"ip_range"`
	Zone    string         `tf:"network_zone"`
}

// Subnets is the kind of subnets in Terraform.
var Subnets = resource.Kind[subnet, *Client]{Name: "hcloud_network_subnet", API: api}

// listNetworks finds the cluster's own network and the shared one.
func listNetworks(ctx context.Context, c *Client, s resource.Scope) ([]*Network, error) {
	out, err := ownList(ctx, c, "networks", s.Cluster, networkOf)
	for _, name := range s.Adopted {
		if err != nil {
			return nil, err
		}
		shared, findErr := once.Ask(ctx, c.answers, "network "+name, func(ctx context.Context) (*hetznerapi.Network, error) {
			return hetznerapi.FindNetwork(ctx, c.Client, name)
		})
		if err = findErr; shared == nil {
			continue
		}
		n := networkOf(*shared)
		n.Adopted = name
		out = append(out, n)
	}
	return out, err
}

func networkOf(a hetznerapi.Network) *Network {
	n := &Network{Name: a.Name, CIDR: a.IPRange, Labels: a.Labels, ID: hetznerapi.Path("networks", a.ID)}
	for _, s := range a.Subnets {
		if s.IPRange == a.IPRange {
			n.Zone = s.NetworkZone
		}
	}
	return n
}

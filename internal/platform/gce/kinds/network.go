package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// Network is a custom-mode virtual network.
type Network struct {
	Name        string `res:"forbid" tf:"name"`
	AutoSubnets bool   `res:"forbid" tf:"auto_create_subnetworks,zero"`

	// ID is PROJECT/NAME, a form that no other kind uses.
	ID string `res:"out,id" out:"id" tf:"name"`
}

// Networks is the kind of Network. A shared one is adopted by its ID.
var Networks = resource.Kind[Network, *Client]{
	Name:  "google_compute_network",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Network"},
	Early: true,
	Key:   func(n *Network) string { return n.Name },
	List:  listNetworks,
	Create: func(ctx context.Context, c *Client, n *Network) error {
		n.ID = c.Project + "/" + n.Name
		return c.Await(ctx)(c.Compute.Networks.Insert(c.Project, &compute.Network{Name: n.Name, AutoCreateSubnetworks: n.AutoSubnets,
			ForceSendFields: []string{"AutoCreateSubnetworks"}}).Context(ctx).Do()) // without this field, it would be an auto-mode network
	},
	Delete: deleteNetwork,
}

// deleteNetwork deletes a network. If it is still in use, the error is permanent and names the
// users: the cluster's own objects are gone by then, and others will not disappear.
func deleteNetwork(ctx context.Context, c *Client, n *Network) error {
	err := c.Await(ctx)(c.Compute.Networks.Delete(c.Project, n.Name).Context(ctx).Do())
	if !fault.Is(err, fault.Conflict) {
		return fault.IgnoreGone(err)
	}
	var users []string
	if rules, listErr := c.allFirewalls(ctx); listErr == nil { // if the list fails, return the first error
		for _, f := range rules {
			if networkID(f.Network) == n.ID {
				users = append(users, "the firewall rule "+f.Name)
			}
		}
	}
	if subnetworks, listErr := c.allSubnetworks(ctx); listErr == nil {
		for _, s := range subnetworks {
			if networkID(s.Network) == n.ID {
				users = append(users, "the subnetwork "+s.Name)
			}
		}
	}
	if len(users) == 0 {
		return err
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("network %s is in use by %s, outside this cluster: %w", n.Name, strings.Join(users, ", "), err),
		"delete what uses the network and run the command again")
}

// listNetworks finds the cluster's own network by its name, and the shared one.
func listNetworks(ctx context.Context, c *Client, s resource.Scope) ([]*Network, error) {
	ids := append([]string{c.ownNetworkID(s.Cluster)}, s.Adopted...)
	slices.Sort(ids)
	return observe.Each(ctx, slices.Compact(ids), func(ctx context.Context, id string) (*Network, error) {
		n, err := once.Ask(ctx, c.answers, "network "+id, func(ctx context.Context) (*compute.Network, error) {
			project, name, _ := strings.Cut(id, "/")
			return gceapi.Result(c.Compute.Networks.Get(project, name).Context(ctx).Do())
		})
		if err != nil {
			if fault.IgnoreGone(err) == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("look for the network %s: %w", id, err)
		}
		if n.IPv4Range != "" {
			return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the network %s is a legacy network, which has no subnetworks", id),
				"convert it (gcloud compute networks update --switch-to-custom-subnet-mode), or set spec.networkID to another network")
		}
		return &Network{Name: n.Name, AutoSubnets: n.AutoCreateSubnetworks, ID: networkID(n.SelfLink)}, nil
	})
}

// ownNetworkID returns the ID of the network that a cluster has unless it shares one.
func (c *Client) ownNetworkID(cluster string) string {
	return c.Project + "/" + gcename.Network(cluster)
}

// networkID returns the ID of a network from its URL.
func networkID(url string) string {
	if url == "" {
		return ""
	}
	return gceapi.Place(url, "projects") + "/" + gceapi.Name(url)
}

func networkRef(url string) resource.Value { return resource.Lit(networkID(url)) }

// networkURL returns a network's URL from its ID.
func networkURL(id resource.Value) string {
	project, name, ok := strings.Cut(id.String(), "/")
	if !ok {
		return ""
	}
	return gceapi.URL("projects/" + project + "/global/networks/" + name)
}

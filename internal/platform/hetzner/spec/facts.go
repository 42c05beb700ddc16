package spec

import (
	"fmt"
	"net/netip"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ranges"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/spec/facts"
)

// Facts are the facts that only Hetzner has.
type Facts struct {
	// NetworkNumber is the number of the shared network.
	NetworkNumber string `json:"networkNumber,omitempty"`
	// APIAddress is the private address of the API's load balancer or, before it exists, a free one.
	APIAddress string `json:"apiAddress,omitempty"`
	// Deprecated has the machine types and images that will not be offered for ever, by their name in
	// a spec, and what follows.
	Deprecated map[string]string `json:"deprecated,omitempty"`
}

// ownFacts returns Hetzner's own facts, as far as they can be parsed; their source reports parse errors.
func ownFacts(f *facts.Cloud) Facts {
	o, _ := facts.OwnAs[Facts](f) // CheckFacts has rejected invalid ones
	return o
}

// NetworkNumber returns the number of the shared network; "" if it is not known.
func NetworkNumber(f *facts.Cloud) string { return ownFacts(f).NetworkNumber }

// APIAddress returns the private address of the API's load balancer. Machines and Terraform need it
// before the load balancer exists, so it is chosen: the last address of the cluster's own network, as
// servers get the first ones.
func APIAddress(c *api.Cluster, f *facts.Cloud) (string, error) {
	if known := ownFacts(f).APIAddress; known != "" {
		return known, nil
	}
	r, err := netip.ParsePrefix(c.Spec.Networking.NetworkCIDR)
	if err != nil || !r.Addr().Is4() {
		return "", fmt.Errorf("cluster %s: spec.networkCIDR is %q, and the facts have no address of the API's load balancer; set it to the range of the network", c.Name, c.Spec.Networking.NetworkCIDR)
	}
	return ranges.Last(r).Prev().String(), nil // the last one is for broadcasts
}

// Region returns the network zone of a cluster: all its subnets must be in the same one.
func Region(c *api.Cluster) (string, error) {
	found := ""
	for _, s := range c.Spec.Networking.Subnets {
		zone := hetznercloud.Zone(s.Zone)
		if zone == "" {
			return "", fmt.Errorf("subnet %s: there is no location %q; use fsn1, nbg1, hel1, ash, hil or sin", s.Name, s.Zone)
		}
		if found != "" && zone != found {
			return "", fmt.Errorf("subnet %s is in the network zone %s, but others are in %s; all subnets of a cluster must be in one network zone", s.Name, zone, found)
		}
		found = zone
	}
	if found == "" {
		return "", fmt.Errorf("cluster %s has no subnet; set spec.subnets", c.Name)
	}
	return found, nil
}

// IsInternal reports whether the API's load balancer has no public address.
func IsInternal(c *api.Cluster) bool {
	lb := c.Spec.API.LoadBalancer
	return lb != nil && lb.Type == api.LoadBalancerInternal
}

// LocationOf returns the location of a group's machines, which is its first subnet's.
func LocationOf(c *api.Cluster, g *api.InstanceGroup) (string, error) {
	if len(g.Spec.Subnets) > 0 {
		for _, s := range c.Spec.Networking.Subnets {
			if s.Name == g.Spec.Subnets[0] {
				return s.Zone, nil
			}
		}
	}
	return "", fmt.Errorf("group %s: its first subnet is not in spec.subnets of the cluster", g.Name)
}

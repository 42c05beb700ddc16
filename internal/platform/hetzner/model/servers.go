package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/fill"
)

// balancerType is the smallest type of load balancers.
const balancerType = "lb11"

// How load balancers find out that a server no longer serves, with times in seconds: faster than by
// default, as a server that shuts down gets connections until then.
const checkInterval, checkTimeout, checkRetries = 5, 3, 2

// balancer returns the load balancer of the API, which every cluster has: nodes reach the control plane
// there.
func (m *model) balancer() ([]resource.Node, error) {
	location := m.spec.Networking.Subnets[0].Zone
	if groups := access.GroupsOf(m.Groups, api.RoleControlPlane); len(groups) > 0 {
		var err error
		if location, err = spec.LocationOf(m.Cluster, groups[0]); err != nil {
			return nil, err
		}
	}
	b := kinds.LoadBalancer{Name: hetznercloud.BalancerName(m.name), Type: balancerType, Location: location, Public: !spec.IsInternal(m.Cluster), Labels: m.labels(),
		Network: m.networkID(), Address: m.address, Selector: hetznercloud.Selector(m.name, api.RoleControlPlane), Services: kinds.Services{}, Subnet: m.subnet()}
	for _, d := range access.Doors(m.Cluster) {
		b.Services[strconv.Itoa(d.Port)] = kinds.Service{Destination: d.Port, Interval: checkInterval, Timeout: checkTimeout, Retries: checkRetries}
	}
	n := kinds.LoadBalancers.New(b.Name, b)
	n.Remedy = "the load balancer has the address of the API: keep it, and undo the change to the order or the zone of spec.subnets"
	return []resource.Node{n}, nil
}

// maxUserData is the maximum size of user data in bytes (Hetzner Cloud API, "Servers").
const maxUserData = 32 << 10

// maxSpread is the maximum number of servers of a placement group (Hetzner Cloud documentation, "Placement
// Groups").
const maxSpread = 10

// placement returns a placement group for each location with several control planes: no host has two.
func (m *model) placement() ([]resource.Node, error) {
	count, nodes := map[string]int{}, []resource.Node(nil)
	for _, g := range access.GroupsOf(m.Groups, api.RoleControlPlane) {
		location, _ := spec.LocationOf(m.Cluster, g) // servers returns its error
		_, most := sizes(g)
		count[location] += most
	}
	for _, location := range slices.Sorted(maps.Keys(count)) {
		if n := count[location]; n > 1 && n <= maxSpread {
			g := kinds.PlacementGroup{Name: "control-plane-" + location + "." + m.name, Type: "spread", Labels: m.labels()}
			nodes = append(nodes, kinds.PlacementGroups.New(g.Name, g))
		}
	}
	return nodes, nil
}

// sizes returns the minimum and the maximum number of a group's machines.
func sizes(g *api.InstanceGroup) (least, most int) {
	least = int(fill.Or(g.Spec.MinSize, 1))
	return least, max(least, int(fill.Or(g.Spec.MaxSize, 0)))
}

// servers returns the groups of servers. They come after the firewalls, which protect them from the
// start.
func (m *model) servers() ([]resource.Node, error) {
	var keys []resource.Value
	nodes, err := m.keys()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		keys = append(keys, n.Out("id"))
	}
	after := append([]resource.Address{kinds.LoadBalancers.At(hetznercloud.BalancerName(m.name))}, m.Keysets...)
	if nodes, err = m.firewalls(); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		after = append(after, n.Address)
	}
	if nodes, err = m.placement(); err != nil {
		return nil, err
	}
	var out []resource.Node
	for _, g := range m.Groups {
		w, err := m.group(g)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		w.SSHKeys = keys
		for _, n := range nodes {
			if g.IsControlPlane() && strings.HasPrefix(n.Name, "control-plane-"+w.Location+".") {
				w.Placement = n.Out("id")
				w.Lifecycle.Ignore = []string{"placement_group_id"} // Terraform would stop a server to place it
			}
		}
		n := kinds.Servers.New(g.Name, w)
		n.After, n.Needs = after, []resource.Address{kinds.Subnets.At(m.subnet())}
		out = append(out, n)
	}
	return out, nil
}

func (m *model) group(g *api.InstanceGroup) (kinds.ServerGroup, error) {
	w := kinds.ServerGroup{Cluster: m.name, Group: g.Name, Name: `"` + g.Name + `-${count.index}"`, Type: g.Spec.MachineType, Image: spec.ImageOf(g, m.facts),
		Labels: spec.ServerLabels(m.Cluster, g), Network: kinds.ServerNetwork{Network: m.networkID()},
		PublicNet: kinds.PublicNet{IPv4: true}}
	w.Least, w.Most = sizes(g)
	var err error
	if w.Location, err = spec.LocationOf(m.Cluster, g); err != nil {
		return w, err
	}
	if w.UserData, err = m.UserData(g, resource.Lit(m.address)); err != nil {
		return w, err
	}
	if n := len(w.UserData.Value().Text()); n > maxUserData {
		return w, fmt.Errorf("its user data has %d bytes, and Hetzner takes %d at most; shorten spec.additionalUserData, or set spec.compressUserData", n, maxUserData)
	}
	return w, nil
}

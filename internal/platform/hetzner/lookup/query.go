// Package lookup queries Hetzner for the facts that a cluster needs before it can be completed: the
// locations, images, machine types, the shared network, and an address for the load balancer. It sends
// bulk requests, concurrently.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/newcluster"
)

// Query is what to look up. Its zones are the locations.
type Query struct {
	asks.Usual
	// Cluster is the name of an existing cluster; empty for a new one.
	Cluster string
}

// ClusterQuery returns the query for an existing cluster. It is pure.
func ClusterQuery(c *api.Cluster, groups []*api.InstanceGroup) Query {
	q := Query{Cluster: c.Name, Usual: asks.OfCluster(c)}
	q.Candidates = spec.MachineTypes()
	for i, s := range c.Spec.Networking.Subnets {
		q.Zones = asks.Add(q.Zones, asks.Reference{Name: s.Zone, Object: api.KindCluster + "/" + c.Name, Path: fmt.Sprintf("spec.subnets[%d].zone", i)})
	}
	for _, g := range groups {
		var zones []string
		if location, err := spec.LocationOf(c, g); err == nil { // otherwise, validation reports it
			zones = []string{location}
		}
		q.AddGroup(g, zones)
	}
	return q
}

// NewClusterQuery returns the query for choosing the spec of a new cluster. It is pure.
func NewClusterQuery(o newcluster.Options, _ newcluster.World) Query {
	q := Query{Usual: asks.OfOptions(o, asks.One)}
	q.Candidates = spec.MachineTypes()
	for i := range q.MachineTypes {
		q.MachineTypes[i].Zones = asks.Names(q.Zones)
	}
	return q
}

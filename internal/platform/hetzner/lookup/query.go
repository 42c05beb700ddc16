// Package lookup queries Hetzner for the facts that a cluster needs before it can be completed: the
// locations, images, machine types, the shared network, and an address for the load balancer. It sends
// bulk requests, concurrently.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/newcluster"
)

// Query is what to look up.
type Query struct {
	// Cluster is the name of an existing cluster; empty for a new one.
	Cluster string
	// Locations and Images must exist; MachineTypes must be offered in their locations, which an ask
	// lists as zones.
	Locations, Images, MachineTypes []asks.Reference
	// Candidates are machine types from which one will be chosen.
	Candidates []string
	// Network is a shared network; its Name is empty if there is none.
	Network asks.Reference
}

// ClusterQuery returns the query for an existing cluster. It is pure.
func ClusterQuery(c *api.Cluster, groups []*api.InstanceGroup) Query {
	object := api.KindCluster + "/" + c.Name
	q := Query{Cluster: c.Name, Candidates: spec.MachineTypes(), Network: asks.Reference{Name: c.Spec.Networking.NetworkID, Object: object, Path: "spec.networkID"}}
	for i, s := range c.Spec.Networking.Subnets {
		q.Locations = asks.Add(q.Locations, asks.Reference{Name: s.Zone, Object: object, Path: fmt.Sprintf("spec.subnets[%d].zone", i)})
	}
	for _, g := range groups {
		of := func(name, path string) asks.Reference {
			r := asks.Reference{Name: name, Object: api.KindInstanceGroup + "/" + g.Name, Path: path}
			if location, err := spec.LocationOf(c, g); err == nil { // otherwise, validation reports it
				r.Zones = []string{location}
			}
			return r
		}
		q.Images = asks.Add(q.Images, of(g.Spec.Image, "spec.image"))
		q.MachineTypes = asks.Add(q.MachineTypes, of(g.Spec.MachineType, "spec.machineType"))
	}
	return q
}

// NewClusterQuery returns the query for choosing the spec of a new cluster. It is pure.
func NewClusterQuery(o newcluster.Options, _ newcluster.World) Query {
	zones := asks.Distinct(append(slices.Clone(o.Zones), o.ControlPlaneZones...)...)
	all := func(option string, names ...string) (out []asks.Reference) {
		for _, n := range names {
			out = asks.Add(out, asks.Reference{Name: strings.TrimSpace(n), Path: "option:" + option})
		}
		return out
	}
	q := Query{Candidates: spec.MachineTypes(), Network: asks.Reference{Name: o.NetworkID, Path: "option:NetworkID"},
		Locations:    slices.Concat(all("Zones", o.Zones...), all("ControlPlaneZones", o.ControlPlaneZones...)),
		Images:       slices.Concat(all("Image", o.Image), all("ControlPlaneImage", o.ControlPlaneImage), all("NodeImage", o.NodeImage), all("BastionImage", o.BastionImage)),
		MachineTypes: slices.Concat(all("ControlPlaneSizes", o.ControlPlaneSizes...), all("NodeSizes", o.NodeSizes...))}
	for i := range q.MachineTypes {
		q.MachineTypes[i].Zones = zones
	}
	return q
}

// Package lookup queries Google for the facts that a cluster needs before it can be completed: the
// region's zones, images, machine types, free ranges, and the properties of its shared objects. It
// sends bulk requests, concurrently.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"cmp"
	"fmt"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/newcluster"
)

// Query is what to look up.
type Query struct {
	asks.Usual
	// Project is the cluster's project; empty means the session's. Region is its region.
	Project asks.Reference
	Region  asks.Reference
	// Accelerators must exist; an ask may name zones that must offer them.
	Accelerators []asks.Reference
	// OwnNetwork is the network that kops creates unless it is shared, and OwnSubnets are the subnets in it.
	OwnNetwork string
	OwnSubnets []string
	// Ranges reports that the cluster still needs ranges in its network.
	Ranges bool
	// ServiceAccount is the address of an existing account for the machines.
	ServiceAccount asks.Reference
}

// ClusterQuery returns the query for an existing cluster. It is pure.
func ClusterQuery(c *api.Cluster, groups []*api.InstanceGroup) Query {
	object, s := api.KindCluster+"/"+c.Name, &c.Spec
	of := func(name, path string) asks.Reference { return asks.Reference{Name: name, Object: object, Path: path} }
	q := Query{Usual: asks.OfCluster(c), OwnNetwork: gcename.Network(c.Name)}
	if gce := s.CloudProvider.GCE; gce != nil {
		q.Project = of(gce.Project, "spec.project")
		q.account(of(gce.ServiceAccount, "spec.cloudConfig.gceServiceAccount"))
	}
	for i, n := range s.Networking.Subnets {
		at := fmt.Sprintf("spec.subnets[%d].", i)
		if q.Region.Name == "" {
			q.Region = of(n.Region, at+"region")
		}
		if n.ID == "" {
			q.OwnSubnets = append(q.OwnSubnets, gcename.Suffixed(n.Name, c.Name))
			q.Ranges = q.Ranges || n.CIDR == ""
		}
	}
	if n := &s.Networking; n.GCP != nil || n.Kindnet != nil {
		q.Ranges = q.Ranges || n.PodCIDR == "" || n.ServiceClusterIPRange == ""
	}
	for _, g := range groups {
		q.group(g)
	}
	return q
}

// group adds what a group needs.
func (q *Query) group(g *api.InstanceGroup) {
	of := func(name, path string) asks.Reference {
		return asks.Reference{Name: name, Object: api.KindInstanceGroup + "/" + g.Name, Path: path, Zones: g.Spec.Zones}
	}
	for i, z := range g.Spec.Zones {
		q.Zones = asks.Add(q.Zones, of(z, fmt.Sprintf("spec.zones[%d]", i)))
	}
	q.AddGroup(g, g.Spec.Zones)
	if g.Spec.MachineType == "" {
		q.Candidates = asks.Distinct(append(q.Candidates, spec.MachineTypes(g.Spec.Role)...)...)
	}
	for i, a := range g.Spec.GuestAccelerators {
		q.Accelerators = asks.Add(q.Accelerators, of(a.AcceleratorType, fmt.Sprintf("spec.guestAccelerators[%d].acceleratorType", i)))
	}
}

// account adds a service account if it is given as an address.
func (q *Query) account(a asks.Reference) {
	if strings.Contains(a.Name, "@") {
		q.ServiceAccount = a
	}
}

// NewClusterQuery returns the query for choosing the spec of a new cluster. It is pure.
func NewClusterQuery(o newcluster.Options, _ newcluster.World) Query {
	q := Query{Usual: asks.OfOptions(o, asks.One), Project: asks.Reference{Name: o.Own["project"], Path: "option:Project"}, OwnNetwork: gcename.Network(o.ClusterName), Ranges: true}
	q.Candidates = asks.Distinct(append(spec.MachineTypes(api.RoleNode), spec.MachineTypes(api.RoleBastion)...)...)
	for _, z := range q.Zones {
		q.Region.Name, q.Region.Path = cmp.Or(q.Region.Name, spec.RegionOf(z.Name)), z.Path
	}
	q.account(asks.Reference{Name: o.Own["gce-service-account"], Path: "spec.cloudConfig.gceServiceAccount"})
	return q
}

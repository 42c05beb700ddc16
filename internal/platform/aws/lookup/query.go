// Package lookup looks up in AWS the facts that a cluster needs before it can be completed: images,
// machine types, zones, and the properties of its shared objects. It sends requests in bulk and
// concurrently.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/newcluster"
)

// Query specifies what to look up.
type Query struct {
	asks.Usual
	Profiles  []asks.Reference // instance profiles, by name or ARN
	Addresses []asks.Reference // elastic IPs, by address
	Buckets   []string
}

// ClusterQuery returns the query for an existing cluster. It is pure.
func ClusterQuery(c *api.Cluster, groups []*api.InstanceGroup) Query {
	object, spec := api.KindCluster+"/"+c.Name, &c.Spec
	q := Query{Usual: asks.OfCluster(c)}
	for i, s := range spec.Networking.Subnets {
		at := func(name, field string) asks.Reference {
			return asks.Reference{Name: name, Object: object, Path: fmt.Sprintf("spec.subnets[%d].%s", i, field)}
		}
		q.Zones = asks.Add(q.Zones, at(s.Zone, "zone"))
		q.Addresses = asks.Add(q.Addresses, at(s.PublicIP, "publicIP"))
	}
	if d := spec.ServiceAccountIssuerDiscovery; d != nil {
		if rest, ok := strings.CutPrefix(d.DiscoveryStore, "s3://"); ok {
			bucket, _, _ := strings.Cut(rest, "/")
			q.Buckets = asks.Distinct(bucket)
		}
	}
	for _, g := range groups {
		q.group(c, g)
	}
	return q
}

// group adds what a group needs to the query.
func (q *Query) group(c *api.Cluster, g *api.InstanceGroup) {
	object := api.KindInstanceGroup + "/" + g.Name
	q.Images = asks.Add(q.Images, asks.Reference{Name: g.Spec.Image, Object: object, Path: "spec.image"})
	types, zones := splitList(g.Spec.MachineType), zonesOf(c, g)
	if len(types) == 0 {
		q.Candidates = asks.Distinct(append(q.Candidates, spec.MachineTypes(g.Spec.Role)...)...)
	}
	for _, t := range types {
		q.MachineTypes = asks.Add(q.MachineTypes, asks.Reference{Name: t, Object: object, Path: "spec.machineType", Zones: zones})
	}
	if m := g.Spec.MixedInstancesPolicy; m != nil {
		for i, t := range m.Instances {
			q.MachineTypes = asks.Add(q.MachineTypes, asks.Reference{Name: t, Object: object, Path: fmt.Sprintf("spec.mixedInstancesPolicy.instances[%d]", i)})
		}
	}
	if p := g.Spec.IAM; p != nil && p.Profile != nil {
		q.Profiles = asks.Add(q.Profiles, asks.Reference{Name: *p.Profile, Object: object, Path: "spec.iam.profile"})
	}
}

// NewClusterQuery returns the query for choosing the spec of a new cluster. It is pure.
func NewClusterQuery(o newcluster.Options, _ newcluster.World) Query {
	q := Query{Usual: asks.OfOptions(o, splitList)}
	q.Candidates = asks.Distinct(append(spec.MachineTypes(api.RoleNode), spec.MachineTypes(api.RoleBastion)...)...)
	for _, list := range o.UtilitySubnetIDs {
		for _, id := range splitList(list) {
			q.Subnets = append(q.Subnets, asks.Reference{Name: id, Path: "option:UtilitySubnetIDs"})
		}
	}
	return q
}

// zonesOf returns the zones of a group's subnets.
func zonesOf(c *api.Cluster, g *api.InstanceGroup) []string {
	var out []string
	for _, s := range c.Spec.Networking.Subnets {
		if slices.Contains(g.Spec.Subnets, s.Name) {
			out = append(out, s.Zone)
		}
	}
	return asks.Distinct(out...)
}

// splitList returns the non-empty items of a comma-separated list.
func splitList(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		out = append(out, strings.TrimSpace(item))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

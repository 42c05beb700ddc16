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
	Zones  []asks.Reference // availability zones that must exist
	Images []asks.Reference
	// MachineTypes must exist; an ask may name zones that must offer the type.
	MachineTypes []asks.Reference
	// Candidates are machine types that one will be chosen from; those that
	// do not exist are left out.
	Candidates []string
	// Hosts are the names that need DNS zones; empty if there are none.
	Hosts []string
	// DNSZone is the name or id of a zone that a user chose.
	DNSZone   string
	VPC       asks.Reference
	Subnets   []asks.Reference
	Profiles  []asks.Reference // instance profiles, by name or ARN
	Addresses []asks.Reference // elastic IPs, by address
	Buckets   []string
}

// ClusterQuery returns the query for an existing cluster. It is pure.
func ClusterQuery(c *api.Cluster, groups []*api.InstanceGroup) Query {
	object, spec := api.KindCluster+"/"+c.Name, &c.Spec
	q := Query{}
	for i, s := range spec.Networking.Subnets {
		at := func(name, field string) asks.Reference {
			return asks.Reference{Name: name, Object: object, Path: fmt.Sprintf("spec.subnets[%d].%s", i, field)}
		}
		q.Zones = asks.Add(q.Zones, at(s.Zone, "zone"))
		q.Subnets = asks.Add(q.Subnets, at(s.ID, "id"))
		q.Addresses = asks.Add(q.Addresses, at(s.PublicIP, "publicIP"))
	}
	q.VPC = asks.Reference{Name: spec.Networking.NetworkID, Object: object, Path: "spec.networkID"}
	if spec.DNSType() != api.DNSNone {
		q.Hosts, q.DNSZone = asks.Distinct(c.Name, spec.API.PublicName), spec.DNSZone
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
	all := func(option string, names ...string) (out []asks.Reference) {
		for _, n := range names {
			for _, item := range splitList(n) {
				out = append(out, asks.Reference{Name: item, Path: "option:" + option})
			}
		}
		return out
	}
	q := Query{
		Zones: slices.Concat(all("Zones", o.Zones...), all("ControlPlaneZones", o.ControlPlaneZones...)),
		Images: slices.Concat(all("Image", o.Image), all("ControlPlaneImage", o.ControlPlaneImage),
			all("NodeImage", o.NodeImage), all("BastionImage", o.BastionImage)),
		MachineTypes: slices.Concat(all("ControlPlaneSizes", o.ControlPlaneSizes...),
			all("NodeSizes", o.NodeSizes...), all("APIServerSizes", o.APIServerSizes...)),
		Candidates: asks.Distinct(append(spec.MachineTypes(api.RoleNode), spec.MachineTypes(api.RoleBastion)...)...),
		Subnets:    slices.Concat(all("SubnetIDs", o.SubnetIDs...), all("UtilitySubnetIDs", o.UtilitySubnetIDs...)),
		VPC:        asks.Reference{Name: o.NetworkID, Path: "option:NetworkID"},
	}
	if strings.EqualFold(o.DNSType, string(api.DNSPublic)) || strings.EqualFold(o.DNSType, string(api.DNSPrivate)) || o.DNSZone != "" {
		q.Hosts, q.DNSZone = asks.Distinct(o.ClusterName, o.APIPublicName), o.DNSZone
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

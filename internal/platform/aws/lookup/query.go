// Package lookup asks AWS for the facts that a cluster needs before it can be
// completed: images, machine types, zones, and what its shared objects are. It
// asks in bulk and at once.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/newcluster"
)

// Query is what to ask.
type Query struct {
	Zones  []Ask // availability zones that must exist
	Images []Ask
	// MachineTypes must exist; an Ask may name zones that must offer the type.
	MachineTypes []Ask
	// Candidates are machine types of which one will be chosen; those that do not exist are left out.
	Candidates []string
	// Hosts are the names for which DNS zones are needed; empty when none are.
	Hosts []string
	// DNSZone is the name or id of a zone that a user chose.
	DNSZone   string
	VPC       Ask
	Subnets   []Ask
	Profiles  []Ask // instance profiles, by name or ARN
	Addresses []Ask // elastic IP addresses, as addresses
	Buckets   []string
}

// Ask is one thing to ask for, and who wants it, for the message when it does not exist.
type Ask struct {
	Name   string
	Object string // "InstanceGroup/nodes"
	Path   string // "spec.image", as in v1alpha2
	Zones  []string
}

// Needs returns what to ask for an existing cluster. It is pure.
func Needs(c *api.Cluster, groups []*api.InstanceGroup) Query {
	object, spec := api.KindCluster+"/"+c.Name, &c.Spec
	q := Query{}
	for i, s := range spec.Networking.Subnets {
		at := func(name, field string) Ask {
			return Ask{Name: name, Object: object, Path: fmt.Sprintf("spec.subnets[%d].%s", i, field)}
		}
		q.Zones = add(q.Zones, at(s.Zone, "zone"))
		q.Subnets = add(q.Subnets, at(s.ID, "id"))
		q.Addresses = add(q.Addresses, at(s.PublicIP, "publicIP"))
	}
	q.VPC = Ask{Name: spec.Networking.NetworkID, Object: object, Path: "spec.networkID"}
	if spec.DNSType() != api.DNSNone {
		q.Hosts, q.DNSZone = distinct(c.Name, spec.API.PublicName), spec.DNSZone
	}
	if d := spec.ServiceAccountIssuerDiscovery; d != nil {
		if rest, ok := strings.CutPrefix(d.DiscoveryStore, "s3://"); ok {
			bucket, _, _ := strings.Cut(rest, "/")
			q.Buckets = distinct(bucket)
		}
	}
	for _, g := range groups {
		q.group(c, g)
	}
	return q
}

// group adds what a group needs.
func (q *Query) group(c *api.Cluster, g *api.InstanceGroup) {
	object := api.KindInstanceGroup + "/" + g.Name
	q.Images = add(q.Images, Ask{Name: g.Spec.Image, Object: object, Path: "spec.image"})
	types, zones := split(g.Spec.MachineType), zonesOf(c, g)
	if len(types) == 0 {
		q.Candidates = distinct(append(q.Candidates, spec.MachineTypes(g.Spec.Role)...)...)
	}
	for _, t := range types {
		q.MachineTypes = add(q.MachineTypes, Ask{Name: t, Object: object, Path: "spec.machineType", Zones: zones})
	}
	if m := g.Spec.MixedInstancesPolicy; m != nil {
		for i, t := range m.Instances {
			q.MachineTypes = add(q.MachineTypes, Ask{Name: t, Object: object, Path: fmt.Sprintf("spec.mixedInstancesPolicy.instances[%d]", i)})
		}
	}
	if p := g.Spec.IAM; p != nil && p.Profile != nil {
		q.Profiles = add(q.Profiles, Ask{Name: *p.Profile, Object: object, Path: "spec.iam.profile"})
	}
}

// Wishes returns what to ask for choosing the spec of a new cluster. It is pure.
func Wishes(o newcluster.Options, _ newcluster.World) Query {
	asks := func(option string, names ...string) (out []Ask) {
		for _, n := range names {
			for _, item := range split(n) {
				out = append(out, Ask{Name: item, Path: "option:" + option})
			}
		}
		return out
	}
	q := Query{
		Zones: slices.Concat(asks("Zones", o.Zones...), asks("ControlPlaneZones", o.ControlPlaneZones...)),
		Images: slices.Concat(asks("Image", o.Image), asks("ControlPlaneImage", o.ControlPlaneImage),
			asks("NodeImage", o.NodeImage), asks("BastionImage", o.BastionImage)),
		MachineTypes: slices.Concat(asks("ControlPlaneSizes", o.ControlPlaneSizes...),
			asks("NodeSizes", o.NodeSizes...), asks("APIServerSizes", o.APIServerSizes...)),
		Candidates: distinct(append(spec.MachineTypes(api.RoleNode), spec.MachineTypes(api.RoleBastion)...)...),
		Subnets:    slices.Concat(asks("SubnetIDs", o.SubnetIDs...), asks("UtilitySubnetIDs", o.UtilitySubnetIDs...)),
		VPC:        Ask{Name: o.NetworkID, Path: "option:NetworkID"},
	}
	if strings.EqualFold(o.DNSType, string(api.DNSPublic)) || strings.EqualFold(o.DNSType, string(api.DNSPrivate)) || o.DNSZone != "" {
		q.Hosts, q.DNSZone = distinct(o.ClusterName, o.APIPublicName), o.DNSZone
	}
	return q
}

// add appends an ask that names something.
func add(asks []Ask, a Ask) []Ask {
	if a.Name == "" {
		return asks
	}
	return append(asks, a)
}

// zonesOf returns the zones of a group's subnets.
func zonesOf(c *api.Cluster, g *api.InstanceGroup) []string {
	var out []string
	for _, s := range c.Spec.Networking.Subnets {
		if slices.Contains(g.Spec.Subnets, s.Name) {
			out = append(out, s.Zone)
		}
	}
	return distinct(out...)
}

// split returns the items of a list with commas.
func split(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		out = append(out, strings.TrimSpace(item))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// names returns the names of asks, sorted, each once.
func names(asks []Ask) []string {
	var out []string
	for _, a := range asks {
		out = append(out, a.Name)
	}
	return distinct(out...)
}

// distinct returns the texts that are not empty, sorted, each once.
func distinct(texts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

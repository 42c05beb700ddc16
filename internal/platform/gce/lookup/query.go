// Package lookup asks Google for the facts that a cluster needs before it can be
// completed: the region's zones, images, machine types, free ranges, and what its shared
// objects are. It asks in bulk and at once.
//
// It must not know what the facts are used for, nor change anything.
package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/newcluster"
)

// Query is what to ask.
type Query struct {
	// Project is the cluster's; empty is that of the session. Region is where it is.
	Project Ask
	Region  Ask
	Zones   []Ask // that must exist
	Images  []Ask
	// MachineTypes and Accelerators must exist; an Ask may name zones that must offer them.
	MachineTypes, Accelerators []Ask
	// Candidates are machine types of which one will be chosen; those that do not exist are left out.
	Candidates []string
	// Network is a shared one, as a spec writes it; its Name is empty when there is none.
	Network Ask
	// OwnNetwork is the network that kops makes otherwise, and OwnSubnets are the subnets in it.
	OwnNetwork string
	OwnSubnets []string
	// Ranges says that the cluster still needs ranges of its network.
	Ranges bool
	// Subnets are shared ones, by name.
	Subnets []Ask
	// Hosts are the names for which DNS zones are needed; empty when none are.
	Hosts []string
	// DNSZone is the name or id of a zone that a user chose.
	DNSZone string
	// ServiceAccount is the address of an existing account of the machines.
	ServiceAccount Ask
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
	object, s := api.KindCluster+"/"+c.Name, &c.Spec
	of := func(name, path string) Ask { return Ask{Name: name, Object: object, Path: path} }
	q := Query{OwnNetwork: gcename.Network(c.Name), Network: of(s.Networking.NetworkID, "spec.networkID")}
	if gce := s.CloudProvider.GCE; gce != nil {
		q.Project = of(gce.Project, "spec.project")
		q.account(of(gce.ServiceAccount, "spec.cloudConfig.gceServiceAccount"))
	}
	for i, n := range s.Networking.Subnets {
		at := fmt.Sprintf("spec.subnets[%d].", i)
		if q.Region.Name == "" {
			q.Region = of(n.Region, at+"region")
		}
		q.Subnets = add(q.Subnets, of(n.ID, at+"id"))
		if n.ID == "" {
			q.OwnSubnets = append(q.OwnSubnets, gcename.Suffixed(n.Name, c.Name))
			q.Ranges = q.Ranges || n.CIDR == ""
		}
	}
	if n := &s.Networking; n.GCP != nil || n.Kindnet != nil {
		q.Ranges = q.Ranges || n.PodCIDR == "" || n.ServiceClusterIPRange == ""
	}
	if s.DNSType() != api.DNSNone {
		q.Hosts, q.DNSZone = distinct(c.Name, s.API.PublicName), s.DNSZone
	}
	for _, g := range groups {
		q.group(g)
	}
	return q
}

// group adds what a group needs.
func (q *Query) group(g *api.InstanceGroup) {
	of := func(name, path string) Ask {
		return Ask{Name: name, Object: api.KindInstanceGroup + "/" + g.Name, Path: path, Zones: g.Spec.Zones}
	}
	for i, z := range g.Spec.Zones {
		q.Zones = add(q.Zones, of(z, fmt.Sprintf("spec.zones[%d]", i)))
	}
	q.Images = add(q.Images, of(g.Spec.Image, "spec.image"))
	q.MachineTypes = add(q.MachineTypes, of(g.Spec.MachineType, "spec.machineType"))
	if g.Spec.MachineType == "" {
		q.Candidates = distinct(append(q.Candidates, spec.MachineTypes(g.Spec.Role)...)...)
	}
	for i, a := range g.Spec.GuestAccelerators {
		q.Accelerators = add(q.Accelerators, of(a.AcceleratorType, fmt.Sprintf("spec.guestAccelerators[%d].acceleratorType", i)))
	}
}

// account asks for a service account that is named by its address.
func (q *Query) account(a Ask) {
	if strings.Contains(a.Name, "@") {
		q.ServiceAccount = a
	}
}

// Wishes returns what to ask for choosing the spec of a new cluster. It is pure.
func Wishes(o newcluster.Options, _ newcluster.World) Query {
	asks := func(option string, names ...string) (out []Ask) {
		for _, n := range names {
			out = add(out, Ask{Name: strings.TrimSpace(n), Path: "option:" + option})
		}
		return out
	}
	one := func(option, name string) Ask { return Ask{Name: name, Path: "option:" + option} }
	q := Query{
		Project: one("Project", o.Own["project"]), Network: one("NetworkID", o.NetworkID),
		Zones: slices.Concat(asks("Zones", o.Zones...), asks("ControlPlaneZones", o.ControlPlaneZones...)),
		Images: slices.Concat(asks("Image", o.Image), asks("ControlPlaneImage", o.ControlPlaneImage),
			asks("NodeImage", o.NodeImage), asks("BastionImage", o.BastionImage)),
		MachineTypes: slices.Concat(asks("ControlPlaneSizes", o.ControlPlaneSizes...),
			asks("NodeSizes", o.NodeSizes...), asks("APIServerSizes", o.APIServerSizes...)),
		Candidates: distinct(append(spec.MachineTypes(api.RoleNode), spec.MachineTypes(api.RoleBastion)...)...),
		OwnNetwork: gcename.Network(o.ClusterName), Ranges: true,
		Subnets: asks("SubnetIDs", o.SubnetIDs...),
	}
	for _, z := range q.Zones {
		q.Region.Name, q.Region.Path = cmp.Or(q.Region.Name, spec.RegionOf(z.Name)), z.Path
	}
	q.account(Ask{Name: o.Own["gce-service-account"], Path: "spec.cloudConfig.gceServiceAccount"})
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

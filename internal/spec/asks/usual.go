package asks

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// Usual is what clusters need to know of nearly every cloud; the query of a cloud embeds it.
type Usual struct {
	Zones, Images []Reference // which must exist
	// MachineTypes must exist; an ask may name zones that must offer the type.
	MachineTypes []Reference
	// Candidates are machine types from which one will be chosen; those that do not exist are ignored.
	Candidates []string
	// Network is a shared network, as a spec writes it; its Name is empty if there is none. Subnets are
	// shared ones.
	Network Reference
	Subnets []Reference
	// Hosts are the names that need DNS zones; empty if there are none. DNSZone is the name or ID of a zone
	// that the user chose.
	Hosts   []string
	DNSZone string
}

// OfCluster returns what a cluster names, except the zones, which clouds read differently, and its groups.
func OfCluster(c *api.Cluster) Usual {
	object, s := api.KindCluster+"/"+c.Name, &c.Spec
	u := Usual{Network: Reference{Name: s.Networking.NetworkID, Object: object, Path: "spec.networkID"}}
	for i, n := range s.Networking.Subnets {
		u.Subnets = Add(u.Subnets, Reference{Name: n.ID, Object: object, Path: fmt.Sprintf("spec.subnets[%d].id", i)})
	}
	if s.DNSType() != api.DNSNone {
		u.Hosts, u.DNSZone = Distinct(c.Name, s.API.PublicName), s.DNSZone
	}
	return u
}

// AddGroup adds the image of a group, and its machine type, which its zones must offer.
func (u *Usual) AddGroup(g *api.InstanceGroup, zones []string) {
	of := func(name, path string) Reference {
		return Reference{Name: name, Object: api.KindInstanceGroup + "/" + g.Name, Path: path, Zones: zones}
	}
	u.Images = Add(u.Images, of(g.Spec.Image, "spec.image"))
	u.MachineTypes = Add(u.MachineTypes, of(g.Spec.MachineType, "spec.machineType"))
}

// OfOptions returns what the options of a new cluster name. split returns the names in a value.
func OfOptions(o newcluster.Options, split func(value string) []string) Usual {
	all := func(option string, values ...string) (out []Reference) {
		for _, v := range values {
			for _, name := range split(v) {
				out = Add(out, Reference{Name: name, Path: "option:" + option})
			}
		}
		return out
	}
	u := Usual{
		Zones:        slices.Concat(all("Zones", o.Zones...), all("ControlPlaneZones", o.ControlPlaneZones...)),
		Images:       slices.Concat(all("Image", o.Image), all("ControlPlaneImage", o.ControlPlaneImage), all("NodeImage", o.NodeImage), all("BastionImage", o.BastionImage)),
		MachineTypes: slices.Concat(all("ControlPlaneSizes", o.ControlPlaneSizes...), all("NodeSizes", o.NodeSizes...), all("APIServerSizes", o.APIServerSizes...)),
		Network:      Reference{Name: o.NetworkID, Path: "option:NetworkID"},
		Subnets:      all("SubnetIDs", o.SubnetIDs...),
	}
	if strings.EqualFold(o.DNSType, string(api.DNSPublic)) || strings.EqualFold(o.DNSType, string(api.DNSPrivate)) || o.DNSZone != "" {
		u.Hosts, u.DNSZone = Distinct(o.ClusterName, o.APIPublicName), o.DNSZone
	}
	return u
}

// One returns the name in a value that has no list, without spaces around it.
func One(value string) []string { return []string{strings.TrimSpace(value)} }

// Answer returns the facts of a cloud with those that only it has, unless something is missing.
func Answer(cloud api.CloudProviderID, found *facts.Cloud, own any, missing diag.List) (*facts.Facts, error) {
	if err := missing.Err(); err != nil {
		return nil, err
	}
	if err := found.SetOwn(own); err != nil {
		return nil, err
	}
	return &facts.Facts{Clouds: map[string]*facts.Cloud{string(cloud): found}}, nil
}

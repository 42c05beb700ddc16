package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	k8s "k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/spec/validate"
)

// validation returns the rules by which a cluster on Hetzner is checked.
func validation() validate.Rules {
	return validate.Rules{
		Cluster: []validate.Rule{
			{Name: "hetzner-name", Do: checkName},
			{Name: "hetzner-network", Do: checkNetwork},
			{Name: "hetzner-subnets", Do: checkSubnets},
			{Name: "hetzner-access", Do: checkAccess},
			{Name: "hetzner-labels", Do: func(c *validate.Check) { checkLabels(c, "spec.cloudLabels", "", c.Spec.CloudLabels) }},
			{Name: "hetzner-etcd-volumes", Do: checkVolumes},
		},
		Group: []validate.GroupRule{
			{Name: "hetzner-group-name", Do: checkGroupName},
			{Name: "hetzner-role", Do: checkRole},
			{Name: "hetzner-location", Do: checkLocation},
			{Name: "hetzner-labels", Do: func(c *validate.Check, g *api.InstanceGroup) {
				checkLabels(c, "spec.cloudLabels", "", g.Spec.CloudLabels)
				checkLabels(c, "spec.nodeLabels", hetznercloud.NodeLabelPrefix, g.Spec.NodeLabels)
			}},
			{Name: "hetzner-deprecated", Do: checkDeprecated},
		},
	}
}

// checkName checks that a label can have the cluster's name.
func checkName(c *validate.Check) {
	if n := len(c.Cluster.Name); n > hetznercloud.LabelMax {
		c.Bad("metadata.name", c.Cluster.Name, fmt.Sprintf("has %d characters, but the label of the cluster's objects has %d at most", n, hetznercloud.LabelMax), "choose a shorter name")
	}
}

// narrowest is the longest prefix of a network (Hetzner Cloud API, "Networks").
const narrowest = 24

func checkNetwork(c *validate.Check) {
	const path = "spec.networkCIDR"
	n := &c.Spec.Networking
	if n.NetworkCIDR == "" {
		c.Need(!c.Strict(), path, "set it to the range of the network, such as 10.0.0.0/16")
		return
	}
	r, ok := validate.Parsed(n.NetworkCIDR)
	switch known := c.Facts.Networks[n.NetworkID].CIDRs; {
	case !ok: // another rule reports it
	case !r.Addr().Is4() || !r.Addr().IsPrivate():
		c.Bad(path, n.NetworkCIDR, "is not a private range", "use one in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	case r.Bits() > narrowest:
		c.Bad(path, n.NetworkCIDR, fmt.Sprintf("is smaller than the smallest network, /%d", narrowest), "use a larger range")
	case len(known) > 0 && known[0] != n.NetworkCIDR:
		c.Bad(path, n.NetworkCIDR, "is not the range of the shared network, "+known[0], "remove it, or use that range")
	}
}

func checkSubnets(c *validate.Check) {
	first, isInternal := "", IsInternal(c.Cluster)
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		zone := hetznercloud.Zone(s.Zone)
		switch {
		case s.Zone == "":
			c.Required(path+".zone", "set it to a location, such as fsn1")
		case zone == "":
			c.Bad(path+".zone", s.Zone, "is not a location of Hetzner Cloud", "use fsn1, nbg1, hel1, ash, hil or sin")
		case first != "" && zone != first:
			c.Bad(path+".zone", s.Zone, "is in the network zone "+zone+", but other subnets are in "+first, "use locations of one network zone")
		default:
			first = zone
		}
		if s.ID != "" {
			c.Bad(path+".id", s.ID, "the subnets of a network have no identifiers", "remove it; share a network with spec.networkID")
		}
		if s.Type != api.SubnetPublic && s.Type != "" && !(s.Type == api.SubnetPrivate && isInternal) { // which needs it
			c.Warn(path+".type", string(s.Type), "has no effect: all machines have public addresses, which firewalls protect", "write Public")
		}
	})
}

// Limits of firewalls (Hetzner Cloud API, "Firewalls").
const maxSources = 100

// checkAccess checks the sources of rules, and warns of those that a load balancer does not filter.
func checkAccess(c *validate.Check) {
	for path, list := range map[string][]string{"spec.sshAccess": c.Spec.SSHAccess, "spec.kubernetesApiAccess": c.Spec.API.Access, "spec.nodePortAccess": c.Spec.NodePortAccess} {
		if len(list) > maxSources {
			c.Bad(path, fmt.Sprint(len(list), " ranges"), fmt.Sprintf("a rule of a firewall has at most %d sources", maxSources), "combine ranges")
		}
	}
	everyone := slices.ContainsFunc(c.Spec.API.Access, func(r string) bool { p, err := netip.ParsePrefix(r); return err == nil && p.Bits() == 0 })
	if len(c.Spec.API.Access) > 0 && !everyone && !IsInternal(c.Cluster) {
		c.Warn("spec.kubernetesApiAccess", strings.Join(c.Spec.API.Access, ","), "does not protect the load balancer, which has no firewall: everyone reaches the API there",
			"set spec.api.loadBalancer.type to Internal and the type of subnets to Private, and reach it through the network")
	}
}

// checkLabels rejects labels that Hetzner rejects (Hetzner Cloud API, "Labels"). prefix precedes each key.
func checkLabels(c *validate.Check, path, prefix string, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at, value := path+"["+key+"]", all[key]
		switch {
		case prefix == "" && (strings.HasPrefix(key, hetznercloud.ReservedPrefix) || key == hetznercloud.AutoscalerLabel || key == hetznercloud.ServiceLabel):
			c.Bad(at, value, "is reserved for Hetzner and its programs in the cluster", "use another key")
		case len(k8s.IsQualifiedName(prefix+key)) > 0:
			c.Bad(at, value, "is for the label "+prefix+key+", which is not valid", "use a key of letters, digits, dashes, dots and underscores; a label has at most 63 after the slash")
		case len(k8s.IsValidLabelValue(value)) > 0:
			c.Bad(at, value, "cannot be the value of a label", "use at most 63 letters, digits, dashes, dots and underscores; begin and end with a letter or digit")
		}
	}
}

// Sizes of volumes in GB (Hetzner Cloud API, "Volumes").
const minVolume, maxVolume = 10, 10240

func checkVolumes(c *validate.Check) {
	c.EachMember(func(path string, m api.EtcdMemberSpec) {
		if m.VolumeSize != nil && (*m.VolumeSize < minVolume || *m.VolumeSize > maxVolume) {
			c.Bad(path+".volumeSize", fmt.Sprint(*m.VolumeSize), "is not the size of a volume in GB", fmt.Sprintf("use %d to %d", minVolume, maxVolume))
		}
	})
}

// maxGroupName leaves room for the number at the end of a server's name, which is a host name.
const maxGroupName = 63 - 1 - 16

func checkGroupName(c *validate.Check, g *api.InstanceGroup) {
	if g.Name != "" && (len(g.Name) > maxGroupName || len(k8s.IsDNS1123Label(g.Name)) > 0) {
		c.Bad("metadata.name", g.Name, "cannot begin the names of servers", fmt.Sprintf("use at most %d lower-case letters, digits and dashes", maxGroupName))
	}
}

func checkRole(c *validate.Check, g *api.InstanceGroup) {
	if g.IsBastion() {
		c.Bad("spec.role", string(g.Spec.Role), "does not exist on Hetzner, where all machines have public addresses", "remove the group, and restrict spec.sshAccess")
	}
}

// checkLocation checks that the machines of a group are in one location.
func checkLocation(c *validate.Check, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) > 1 {
		c.Bad("spec.subnets", strings.Join(g.Spec.Subnets, ","), "the machines of a group are in one location", "keep one, and create a group for each of the others")
	}
}

// checkDeprecated warns of machine types and images that will not be offered for ever.
func checkDeprecated(c *validate.Check, g *api.InstanceGroup) {
	for _, of := range []struct{ path, name string }{{"spec.machineType", g.Spec.MachineType}, {"spec.image", g.Spec.Image}} {
		if follows, is := ownFacts(c.Facts).Deprecated[of.name]; is {
			c.Warn(of.path, of.name, "is deprecated: "+follows, "choose another one")
		}
	}
}

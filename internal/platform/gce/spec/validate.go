package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/validate"
)

// validation returns the rules by which a cluster on GCE is checked.
func validation() validate.Rules {
	return validate.Rules{
		Cluster: []validate.Rule{
			{Name: "gce-name", Do: checkClusterName},
			{Name: "gce-project", Do: checkProject},
			{Name: "gce-network", Do: checkNetwork},
			{Name: "gce-subnets", Do: checkSubnets},
			{Name: "gce-service-account", Do: checkServiceAccount},
			{Name: "gce-dns-zone", Do: checkDNSZone},
			{Name: "gce-labels", Do: func(c *validate.Check) { checkLabels(c, c.Spec.CloudLabels) }},
			{Name: "gce-etcd-disks", Do: checkEtcdDisks},
			{Name: "gce-quota", Do: checkQuota},
		},
		Group: []validate.GroupRule{
			{Name: "gce-group-name", Do: checkGroupName},
			{Name: "gce-zones", Do: checkGroupZones},
			{Name: "gce-subnet", Do: checkGroupSubnet},
			{Name: "gce-image", Do: checkImage},
			{Name: "gce-disk", Do: checkRootDisk},
			{Name: "gce-accelerators", Do: checkAccelerators},
			{Name: "gce-spot", Do: checkSpot},
			{Name: "gce-labels", Do: func(c *validate.Check, g *api.InstanceGroup) { checkLabels(c, g.Spec.CloudLabels) }},
		},
	}
}

// checkClusterName checks that names derived from the cluster's begin with a letter, and that a label
// can hold the cluster's name. A longer name is only a warning, because files for other tools can
// still be written.
func checkClusterName(c *validate.Check) {
	const path = "metadata.name"
	name := c.Cluster.Name
	if name != "" && (name[0] < 'a' || name[0] > 'z') {
		c.Bad(path, name, "does not begin with a letter, as names of Google Cloud resources must", "choose a name that begins with a letter")
	}
	if n := len(names.Dashed(name)); n > labelMax {
		c.Warn(path, name, fmt.Sprintf("has %d characters, but the label of the cluster's machines and disks has %d at most, so Google rejects all of them", n, labelMax), "choose a shorter name")
	}
}

func checkProject(c *validate.Check) {
	const path = "spec.project"
	gce := c.Spec.CloudProvider.GCE
	switch {
	case gce == nil:
	case gce.Project == "":
		c.Need(!c.Strict(), path, "set it to the project ID, or use option:Project when you create the cluster (gcloud config get-value project)")
	case !isProject(gce.Project):
		c.Bad(path, gce.Project, "is not a project ID", "use the ID, not the number or the title (gcloud projects list)")
	}
}

func checkNetwork(c *validate.Check) {
	const path = "spec.networkID"
	n := &c.Spec.Networking
	if _, _, ok := ParseNetwork(n.NetworkID); n.NetworkID != "" && !ok {
		c.Bad(path, n.NetworkID, "is not a network", "use its name, or project/name if another project shares it")
	}
	if n.NetworkID == "" && slices.ContainsFunc(n.Subnets, func(s api.ClusterSubnetSpec) bool { return s.ID != "" }) {
		c.Required(path, "set it to the network of the shared subnets")
	}
}

func checkSubnets(c *validate.Check) {
	_, network := networkName(c.Cluster.Name, c.Spec.Networking.NetworkID)
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		f, known := c.Facts.Subnets[s.ID]
		switch {
		case s.ID == "" && s.Name != "" && (!isName(s.Name) || len(s.Name) > nameMax-1-names.Tail):
			c.Bad(path+".name", s.Name, "cannot begin the names of Google Cloud resources", fmt.Sprintf("use at most %d lower-case letters, digits and dashes; begin with a letter", nameMax-1-names.Tail))
		case s.ID != "" && !isName(s.ID):
			c.Bad(path+".id", s.ID, "is not the name of a subnet", "use only its name; its project is the project of spec.networkID")
		case known && f.Network[strings.LastIndex(f.Network, "/")+1:] != network:
			c.Bad(path+".id", s.ID, "is in the network "+f.Network, "set spec.networkID to that network, or use a subnet of "+network)
		case known && c.Strict() && usesAliasRanges(c.Spec):
			checkPodRange(c, path+".id", s)
		}
	})
}

// checkPodRange checks that a shared subnet has the secondary range for its pods.
func checkPodRange(c *validate.Check, path string, s *api.ClusterSubnetSpec) {
	name, want := podRange(c.Cluster.Name), c.Spec.Networking.PodCIDR
	if have := ownFacts(c.Facts).Secondary[s.ID][name]; have != want {
		c.Bad(path, s.ID, fmt.Sprintf("has no secondary range %s of %s for pods", name, want),
			fmt.Sprintf("add it (gcloud compute networks subnets update %s --region %s --add-secondary-ranges %s=%s), or set spec.podCIDR to its range", s.ID, s.Region, name, want))
	}
}

func checkServiceAccount(c *validate.Check) {
	if gce := c.Spec.CloudProvider.GCE; gce != nil && gce.ServiceAccount != "" && gce.ServiceAccount != "default" && !strings.Contains(gce.ServiceAccount, "@") {
		c.Bad("spec.cloudConfig.gceServiceAccount", gce.ServiceAccount, "is not the address of a service account", "write one such as name@project.iam.gserviceaccount.com, or default")
	}
}

// checkDNSZone warns of a private zone that is not visible to the machines' network.
func checkDNSZone(c *validate.Check) {
	_, network := networkName(c.Cluster.Name, c.Spec.Networking.NetworkID)
	for _, z := range c.Facts.DNSZones {
		if z.ID == c.Spec.DNSZone && z.Private && c.Spec.DNSType() == api.DNSPrivate && !slices.Contains(z.Networks, network) {
			c.Warn("spec.dnsZone", z.ID, "is not visible in the network "+network+", so machines cannot resolve the names in it",
				"add the network to the zone once it exists (gcloud dns managed-zones update --networks)")
		}
	}
}

// checkLabels warns of labels that Google rejects. It is only a warning, because other tools' formats
// may accept them.
func checkLabels(c *validate.Check, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if value := all[key]; !isLabelAccepted(key, value) {
			k, v := fitLabel(key, value)
			c.Warn("spec.cloudLabels["+key+"]", value, "is not a Google Cloud label: use at most 63 lower-case letters, digits, dashes and underscores, and begin with a letter",
				fmt.Sprintf("write %s: %q", k, v))
		}
	}
}

// checkEtcdDisks checks the types of the etcd disks, and that their members' machines support them.
func checkEtcdDisks(c *validate.Check) {
	c.EachMember(func(path string, m api.EtcdMemberSpec) {
		path += ".volumeType"
		checkDiskKind(c, path, fill.Or(m.VolumeType, ""))
		for _, g := range c.Groups() {
			if g.Name == fill.Or(m.InstanceGroup, "") {
				checkDiskType(c, path, fill.Or(m.VolumeType, ""), etcdDisk, g.Spec.MachineType)
			}
		}
	})
}

// checkDiskKind checks that a type is one of Google's disk types.
func checkDiskKind(c *validate.Check, path, kind string) {
	if kind != "" && !strings.HasPrefix(kind, "pd-") && !strings.HasPrefix(kind, hyperdisk) {
		c.Bad(path, kind, "is not a Google Cloud disk type", "write pd-standard, pd-balanced, pd-ssd or hyperdisk-balanced")
	}
}

// The default disk types.
const (
	etcdDisk = "pd-ssd"
	bootDisk = "pd-standard"
)

// hyperdisk is the prefix of the only disk types that newer machine series support.
const hyperdisk = "hyperdisk-"

// needsHyperdisks reports whether a machine type's series supports only Hyperdisks (Compute
// Engine, "Machine families resource and comparison guide").
func needsHyperdisks(machine string) bool {
	series, _, _ := strings.Cut(machine, "-")
	return slices.Contains([]string{"a4", "a4x", "c4", "c4a", "c4d", "g4", "h4d", "m4", "n4", "n4a", "n4d", "x4"}, series)
}

// checkDiskType warns of a disk that its machine does not support; otherwise is the disk type to use if kind
// is empty.
func checkDiskType(c *validate.Check, path, kind, otherwise, machine string) {
	if kind == "" {
		kind = otherwise
	}
	if needsHyperdisks(machine) && !strings.HasPrefix(kind, hyperdisk) {
		c.Warn(path, kind, "is a disk type that machines of type "+machine+" do not support", "set it to hyperdisk-balanced")
	}
}

package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/spec/validate"
)

// validation are the rules by which a cluster on GCE is checked.
func validation() validate.Rules {
	return validate.Rules{
		Cluster: []validate.Rule{
			{Name: "gce-name", Do: clusterName},
			{Name: "gce-project", Do: project},
			{Name: "gce-network", Do: network},
			{Name: "gce-subnets", Do: subnets},
			{Name: "gce-service-account", Do: serviceAccount},
			{Name: "gce-dns-zone", Do: dnsZone},
			{Name: "gce-labels", Do: func(c *validate.Check) { labels(c, c.Spec.CloudLabels) }},
			{Name: "gce-etcd-disks", Do: etcdDisks},
			{Name: "gce-quota", Do: quota},
		},
		Group: []validate.GroupRule{
			{Name: "gce-group-name", Do: groupName},
			{Name: "gce-zones", Do: groupZones},
			{Name: "gce-subnet", Do: groupSubnet},
			{Name: "gce-image", Do: image},
			{Name: "gce-disk", Do: rootDisk},
			{Name: "gce-accelerators", Do: accelerators},
			{Name: "gce-spot", Do: spot},
			{Name: "gce-labels", Do: func(c *validate.Check, g *api.InstanceGroup) { labels(c, g.Spec.CloudLabels) }},
		},
	}
}

// text is what p points to, or "".
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// clusterName checks that the names that are made of the cluster's begin as Google's do, and
// that its label holds it. Of a longer name other tools can be given files, so it passes.
func clusterName(c *validate.Check) {
	const path = "metadata.name"
	name := c.Cluster.Name
	if name != "" && (name[0] < 'a' || name[0] > 'z') {
		c.Bad(path, name, "does not begin with a letter, as the names of Google's resources do", "choose a name that begins with a letter")
	}
	if n := len(names.Dashed(name)); n > labelMax {
		c.Warn(path, name, fmt.Sprintf("has %d characters, and the label of the cluster's machines and disks has %d at most: Google makes none of them", n, labelMax), "choose a shorter name")
	}
}

func project(c *validate.Check) {
	const path = "spec.project"
	gce := c.Spec.CloudProvider.GCE
	switch {
	case gce == nil:
	case gce.Project == "":
		c.Need(!c.Strict(), path, "write the id of the project, or name it with option:Project when the cluster is created (gcloud config get-value project)")
	case !isProject(gce.Project):
		c.Bad(path, gce.Project, "is not the id of a project", "write the id, neither the number nor the title (gcloud projects list)")
	}
}

func network(c *validate.Check) {
	const path = "spec.networkID"
	n := &c.Spec.Networking
	if _, _, ok := ParseNetwork(n.NetworkID); n.NetworkID != "" && !ok {
		c.Bad(path, n.NetworkID, "is not a network", "write its name, or project/name where another project shares it")
	}
	if n.NetworkID == "" && slices.ContainsFunc(n.Subnets, func(s api.ClusterSubnetSpec) bool { return s.ID != "" }) {
		c.Required(path, "name the network of the shared subnets")
	}
}

func subnets(c *validate.Check) {
	_, network := networkName(c.Cluster.Name, c.Spec.Networking.NetworkID)
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		f, known := c.Facts.Subnets[s.ID]
		switch {
		case s.ID == "" && s.Name != "" && (!isName(s.Name) || len(s.Name) > nameMax-1-names.Tail):
			c.Bad(path+".name", s.Name, "begins no name of Google's", fmt.Sprintf("use at most %d lower-case letters, digits and dashes; begin with a letter", nameMax-1-names.Tail))
		case s.ID != "" && !isName(s.ID):
			c.Bad(path+".id", s.ID, "is not the name of a subnet", "write only its name; its project is the project of spec.networkID")
		case known && f.Network[strings.LastIndex(f.Network, "/")+1:] != network:
			c.Bad(path+".id", s.ID, "is in the network "+f.Network, "name that in spec.networkID, or a subnet of "+network)
		case known && c.Strict() && usesAliasRanges(c.Spec):
			podsOf(c, path+".id", s)
		}
	})
}

// podsOf checks that a shared subnet has the range of which its machines give their pods addresses.
func podsOf(c *validate.Check, path string, s *api.ClusterSubnetSpec) {
	name, want := podRange(c.Cluster.Name), c.Spec.Networking.PodCIDR
	if have := own(c.Facts).Secondary[s.ID][name]; have != want {
		c.Bad(path, s.ID, fmt.Sprintf("has no secondary range %s of %s for pods", name, want),
			fmt.Sprintf("add it (gcloud compute networks subnets update %s --region %s --add-secondary-ranges %s=%s), or write the range that it has in spec.podCIDR", s.ID, s.Region, name, want))
	}
}

func serviceAccount(c *validate.Check) {
	if gce := c.Spec.CloudProvider.GCE; gce != nil && gce.ServiceAccount != "" && gce.ServiceAccount != "default" && !strings.Contains(gce.ServiceAccount, "@") {
		c.Bad("spec.cloudConfig.gceServiceAccount", gce.ServiceAccount, "is not the address of a service account", "write one such as name@project.iam.gserviceaccount.com, or default")
	}
}

// dnsZone warns of a private zone in which the machines do not look for names.
func dnsZone(c *validate.Check) {
	_, network := networkName(c.Cluster.Name, c.Spec.Networking.NetworkID)
	for _, z := range c.Facts.DNSZones {
		if z.ID == c.Spec.DNSZone && z.Private && c.Spec.DNSType() == api.DNSPrivate && !slices.Contains(z.Networks, network) {
			c.Warn("spec.dnsZone", z.ID, "is not seen in the network "+network+", so that machines do not find the names in it",
				"add the network to the zone as soon as there is one (gcloud dns managed-zones update --networks)")
		}
	}
}

// labels warns of labels that Google refuses. A format of other tools may keep them as they are.
func labels(c *validate.Check, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if value := all[key]; !takesLabel(key, value) {
			k, v := fitLabel(key, value)
			c.Warn("spec.cloudLabels["+key+"]", value, "is not a Google Cloud label: use at most 63 lower-case letters, digits, dashes and underscores, and begin with a letter",
				fmt.Sprintf("write %s: %q", k, v))
		}
	}
}

// etcdDisks checks the types of the disks of etcd, and that the machines of their members take them.
func etcdDisks(c *validate.Check) {
	for i, e := range c.Spec.EtcdClusters {
		for j, m := range e.EtcdMembers {
			path := validate.At(validate.At("spec.etcdClusters", i)+".etcdMembers", j) + ".volumeType"
			diskType(c, path, text(m.VolumeType))
			for _, g := range c.Groups() {
				if g.Name == text(m.InstanceGroup) {
					fits(c, path, text(m.VolumeType), etcdDisk, g.Spec.MachineType)
				}
			}
		}
	}
}

// diskType checks that a type is one of Google's disks.
func diskType(c *validate.Check, path, kind string) {
	if kind != "" && !strings.HasPrefix(kind, "pd-") && !strings.HasPrefix(kind, hyperdisk) {
		c.Bad(path, kind, "is not a type of Google's disks", "write pd-standard, pd-balanced, pd-ssd or hyperdisk-balanced")
	}
}

// The types of disks of which nobody says them.
const (
	etcdDisk = "pd-ssd"
	bootDisk = "pd-standard"
)

// hyperdisk begins the types of disks that newer series of machines take alone.
const hyperdisk = "hyperdisk-"

// takesHyperdisksAlone reports whether a machine type is of a series that takes no other
// disks (Compute Engine, "Machine families resource and comparison guide").
func takesHyperdisksAlone(machine string) bool {
	series, _, _ := strings.Cut(machine, "-")
	return slices.Contains([]string{"a4", "a4x", "c4", "c4a", "c4d", "g4", "h4d", "m4", "n4", "n4a", "n4d", "x4"}, series)
}

// fits warns of a disk that its machine does not take; otherwise is the type of a disk of
// which nobody says it.
func fits(c *validate.Check, path, kind, otherwise, machine string) {
	if kind == "" {
		kind = otherwise
	}
	if takesHyperdisksAlone(machine) && !strings.HasPrefix(kind, hyperdisk) {
		c.Warn(path, kind, "is a type of disk that machines of type "+machine+" do not take", "set it to hyperdisk-balanced")
	}
}

package complete

import (
	"net/netip"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
)

func gceRules() []rule {
	return []rule{
		{"gce-cloud-config", "how kops marks machines of the cluster", api.CloudGCE, setGCEConfig},
		{"gce-cloud-controller", "the version that this kops was tested with", api.CloudGCE, setGCEController},
		{"gce-csi-driver", "the version that this kops was tested with", api.CloudGCE, setPDDriver},
	}
}

// usesAliasRanges reports whether pods have addresses of a secondary range of the node's subnet.
func (p *pass) usesAliasRanges() bool {
	n := &p.spec.Networking
	return p.cloud == api.CloudGCE && (n.GCP != nil || n.Kindnet != nil)
}

// gceNetwork is the name of the cluster's network.
func (p *pass) gceNetwork() string {
	if id := p.spec.Networking.NetworkID; id != "" {
		return id[strings.LastIndex(id, "/")+1:]
	}
	return names.Dashed(p.cluster.Name)
}

// setAliasRanges finds free ranges for pods (/14), services (/16) and nodes (/19).
func setAliasRanges(p *pass) {
	n := &p.spec.Networking
	if !p.usesAliasRanges() || p.ipv6() {
		return
	}
	if len(n.Subnets) != 1 {
		p.fail("spec.subnets", "", "gce-alias-ranges", "this pod network needs exactly one subnet", "leave one subnet of the cluster's region, or choose another networking")
		return
	}
	used := appendRanges(p.usedInNetwork(), n.PodCIDR, n.ServiceClusterIPRange)
	p.allocate(&n.PodCIDR, 14, &used)
	p.allocate(&n.ServiceClusterIPRange, 16, &used)
	if n.Subnets[0].ID == "" {
		p.allocate(&n.Subnets[0].CIDR, 19, &used)
	}
}

func setGCESubnets(p *pass) {
	n := &p.spec.Networking
	used := p.usedInNetwork()
	for i := range n.Subnets {
		if s := &n.Subnets[i]; s.ID == "" {
			p.allocate(&s.CIDR, 20, &used)
		}
	}
}

// allocate fills an empty range with a free one of 10.0.0.0/8 and marks it as used.
func (p *pass) allocate(to *string, length int, used *[]netip.Prefix) {
	if *to != "" {
		return
	}
	r, err := allocate(netip.MustParsePrefix(privateRange), length, *used)
	if err != nil {
		p.fail("spec.subnets", "", "gce-subnet-cidr", err.Error(), "write the subnet's cidr")
		return
	}
	*to, *used = r.String(), append(*used, r)
}

func setGCEConfig(p *pass) {
	const roleTag = "-k8s-io-role-node" // a network tag has at most 63 characters
	g := p.spec.CloudProvider.GCE
	fillPtr(&g.Multizone, true)
	fillPtr(&g.NodeTags, names.Short(names.Dashed(p.cluster.Name), 63-len(roleTag))+roleTag)
}

func setGCEController(p *pass) {
	c := p.cloudController("registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v35.0.0")
	fill(&c.ClusterName, names.Dashed(p.cluster.Name))
	fill(&c.ClusterCIDR, p.spec.Networking.PodCIDR)
	fillPtr(&c.AllocateNodeCIDRs, true)
	fillPtr(&c.CIDRAllocatorType, "CloudAllocator")
	fillList(&c.Controllers, "*")
}

func setPDDriver(p *pass) {
	d := ensure(&p.spec.CloudProvider.GCE.PDCSIDriver)
	fillPtr(&d.Enabled, true)
	fillPtr(&d.Version, "v1.22.1")
	fillPtr(&d.DefaultStorageClassName, "balanced-csi")
}

package spec

import (
	"net/netip"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// privateRange is the range from which clusters' ranges are allocated.
const privateRange = "10.0.0.0/8"

// completion returns the rules by which a cluster on GCE is completed.
func completion() complete.Rules {
	return complete.Rules{
		Early: []complete.Rule{
			{Name: "gce-shared-subnet", Why: "the values of the shared subnet", Do: setSharedSubnets},
			{Name: "gce-non-masquerade-cidr", Why: "pods have addresses from the network", Do: setNonMasquerade},
		},
		Ranges: []complete.Rule{
			{Name: "gce-alias-ranges", Why: "free ranges of 10.0.0.0/8 for pods, services and nodes", Do: setAliasRanges},
			{Name: "gce-subnet-cidr", Why: "a free /20 of 10.0.0.0/8", Do: setSubnets},
		},
		Before: []complete.Rule{
			{Name: "gce-node-cidrs", Why: "the cloud assigns alias ranges", Do: setNodeCIDRs},
		},
		After: []complete.Rule{
			{Name: "gce-hairpin", Why: "pods reach themselves through a promiscuous bridge", Do: setHairpin},
			{Name: "gce-cloud-config", Why: "how kops marks machines of the cluster", Do: setConfig},
			{Name: "gce-cloud-controller", Why: "the version that this kops was tested with", Do: setController},
		},
	}
}

// setSharedSubnets sets the ranges of shared subnets to their existing ones, and the pod range to
// the subnets' secondary range for pods.
func setSharedSubnets(p *complete.Pass) {
	for i := range p.Spec.Networking.Subnets {
		if s := &p.Spec.Networking.Subnets[i]; s.ID != "" {
			fill.Value(&s.CIDR, p.Facts.Subnets[s.ID].CIDR)
			if usesAliasRanges(p.Spec) {
				fill.Value(&p.Spec.Networking.PodCIDR, ownFacts(p.Facts).Secondary[s.ID][podRange(p.Cluster.Name)])
			}
		}
	}
}

func setNonMasquerade(p *complete.Pass) {
	if usesAliasRanges(p.Spec) {
		fill.Value(&p.Spec.Networking.NonMasqueradeCIDR, privateRange)
	}
}

func setNodeCIDRs(p *complete.Pass) {
	if usesAliasRanges(p.Spec) {
		fill.Ptr(&fill.Ensure(&p.Spec.KubeControllerManager).AllocateNodeCIDRs, false)
	}
}

func setHairpin(p *complete.Pass) {
	for _, k := range []**api.KubeletConfigSpec{&p.Spec.Kubelet, &p.Spec.ControlPlaneKubelet} {
		fill.Value(&fill.Ensure(k).HairpinMode, "promiscuous-bridge")
	}
}

// usedRanges returns the ranges that are already in use in the cluster's network.
func usedRanges(p *complete.Pass) []netip.Prefix {
	_, network := networkName(p.Cluster.Name, p.Spec.Networking.NetworkID)
	out := complete.Ranges(nil, p.Facts.Networks[network].CIDRs...)
	for _, s := range p.Spec.Networking.Subnets {
		out = complete.Ranges(out, s.CIDR)
	}
	return out
}

// usesAliasRanges reports whether pods get addresses from a secondary range of the node's subnet.
func usesAliasRanges(s *api.ClusterSpec) bool {
	return s.Networking.GCP != nil || s.Networking.Kindnet != nil
}

// podRange returns the name of the secondary range for pods.
func podRange(cluster string) string { return gcename.Suffixed("pods", cluster) }

// setAliasRanges finds free ranges for pods (/14), services (/16) and nodes (/19).
func setAliasRanges(p *complete.Pass) {
	n := &p.Spec.Networking
	if !usesAliasRanges(p.Spec) || p.IPv6() {
		return
	}
	if len(n.Subnets) != 1 {
		p.Fail("spec.subnets", "", "gce-alias-ranges", "this pod network needs exactly one subnet", "keep only one subnet in the cluster's region, or choose another networking")
		return
	}
	taken := complete.Ranges(usedRanges(p), n.PodCIDR, n.ServiceClusterIPRange)
	allocateRange(p, &n.PodCIDR, 14, &taken)
	allocateRange(p, &n.ServiceClusterIPRange, 16, &taken)
	if n.Subnets[0].ID == "" {
		allocateRange(p, &n.Subnets[0].CIDR, 19, &taken)
	}
}

func setSubnets(p *complete.Pass) {
	n := &p.Spec.Networking
	taken := usedRanges(p)
	for i := range n.Subnets {
		if s := &n.Subnets[i]; s.ID == "" {
			fill.Value(&s.CIDR, p.Facts.Subnets[gcename.Suffixed(s.Name, p.Cluster.Name)].CIDR) // of the subnet that kops created
			allocateRange(p, &s.CIDR, 20, &taken)
		}
	}
}

// allocateRange sets an empty range to a free one in 10.0.0.0/8 and marks it as used.
func allocateRange(p *complete.Pass, to *string, length int, used *[]netip.Prefix) {
	if *to != "" {
		return
	}
	r, err := complete.Allocate(netip.MustParsePrefix(privateRange), length, *used)
	if err != nil {
		p.Fail("spec.subnets", "", "gce-subnet-cidr", err.Error(), "set the subnet's cidr")
		return
	}
	*to, *used = r.String(), append(*used, r)
}

func setConfig(p *complete.Pass) {
	g := p.Spec.CloudProvider.GCE
	fill.Ptr(&g.Multizone, true)
	fill.Ptr(&g.NodeTags, gcename.Tag("node", p.Cluster.Name))
}

func setController(p *complete.Pass) {
	c := p.CloudController("registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v35.0.0")
	fill.Value(&c.ClusterName, names.Dashed(p.Cluster.Name))
	fill.Value(&c.ClusterCIDR, p.Spec.Networking.PodCIDR)
	fill.Ptr(&c.AllocateNodeCIDRs, true)
	fill.Ptr(&c.CIDRAllocatorType, "CloudAllocator")
	if p.IPv6() { // kops-controller assigns pod ranges to the nodes
		fill.List(&c.Controllers, "*", "-node-ipam-controller", "-node-route-controller")
	}
	fill.List(&c.Controllers, "*")
}

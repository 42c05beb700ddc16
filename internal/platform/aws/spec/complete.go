package spec

import (
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// completion returns the rules for completing a cluster on AWS.
func completion() complete.Rules {
	return complete.Rules{
		Early: []complete.Rule{
			{Name: "network-cidr", Why: "the range of the shared VPC", Do: setSharedNetwork},
			{Name: "shared-subnet", Why: "the values of the shared subnet", Do: setSharedSubnets},
		},
		Before: []complete.Rule{
			{Name: "dns-upstream", Why: "the resolver of the VPC supports IPv6", Do: setUpstreamDNS},
		},
		After: []complete.Rule{
			{Name: "aws-cloud-controller", Why: "the version that this kops was tested with", Do: setController},
			{Name: "aws-node-addresses", Why: "nodes of an IPv6 cluster have IPv4 addresses as well", Do: setNodeIPFamilies},
		},
		Group: []complete.GroupRule{
			{Name: "aws-root-volume", Why: "kops' size for the role; gp3, encrypted", Do: setRootVolume},
			{Name: "aws-instance-metadata", Why: "tokens are required, and only the machine itself gets them", Do: setInstanceMetadata},
			{Name: "warm-pool", Why: "the cluster's warm pool", Do: setWarmPool},
		},
	}
}

// setSharedNetwork sets the network range of a cluster in a shared VPC to the VPC's range.
func setSharedNetwork(p *complete.Pass) {
	n := &p.Spec.Networking
	if n.NetworkID == "" || n.NetworkCIDR != "" {
		return
	}
	if v := p.Facts.Networks[n.NetworkID]; len(v.CIDRs) > 0 {
		n.NetworkCIDR = v.CIDRs[0]
		return
	}
	p.Fail("spec.networkID", n.NetworkID, "network-cidr", "the shared VPC was not found", "check the id and the region, or set spec.networkCIDR to the VPC's range")
}

// setSharedSubnets sets the range and the zone of shared subnets to their actual ones.
func setSharedSubnets(p *complete.Pass) {
	for i := range p.Spec.Networking.Subnets {
		s := &p.Spec.Networking.Subnets[i]
		if s.ID == "" {
			continue
		}
		f, ok := p.Facts.Subnets[s.ID]
		if !ok && s.CIDR == "" {
			p.Fail(fmt.Sprintf("spec.subnets[%d].id", i), s.ID, "shared-subnet", "the shared subnet was not found", "check the id and the region, or set the subnet's cidr and zone")
		}
		fill.Value(&s.CIDR, f.CIDR)
		fill.Value(&s.Zone, f.Zone)
	}
}

func setUpstreamDNS(p *complete.Pass) {
	if p.IPv6() {
		fill.List(&fill.Ensure(&p.Spec.KubeDNS).UpstreamNameservers, "fd00:ec2::253")
	}
}

func setController(p *complete.Pass) {
	c := p.CloudController("registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.1")
	fill.Value(&c.ClusterName, p.Cluster.Name)
	fill.Ptr(&c.AllocateNodeCIDRs, !p.IPv6())
	fill.Ptr(&c.ConfigureCloudRoutes, p.Spec.Networking.Kubenet != nil)
	if !p.IPv6() {
		fill.Value(&c.ClusterCIDR, p.Spec.Networking.PodCIDR)
	}
}

func setNodeIPFamilies(p *complete.Pass) {
	if p.IPv6() {
		fill.List(&p.Spec.CloudProvider.AWS.NodeIPFamilies, "ipv6", "ipv4")
	}
}

// setRootVolume sets the sizes in GB that kops has always used.
func setRootVolume(_ *complete.Pass, g *api.InstanceGroup) {
	v := fill.Ensure(&g.Spec.RootVolume)
	size := int32(128)
	switch g.Spec.Role {
	case api.RoleControlPlane:
		size = 64
	case api.RoleBastion:
		size = 32
	}
	fill.Ptr(&v.Size, size)
	fill.Ptr(&v.Type, "gp3")
	fill.Ptr(&v.Encryption, true)
	if *v.Type == "gp3" {
		fill.Ptr(&v.IOPS, 3000)
		fill.Ptr(&v.Throughput, 125)
	}
}

func setInstanceMetadata(_ *complete.Pass, g *api.InstanceGroup) {
	m := fill.Ensure(&g.Spec.InstanceMetadata)
	fill.Ptr(&m.HTTPTokens, "required")
	fill.Ptr(&m.HTTPPutResponseHopLimit, 1)
}

// setWarmPool applies the cluster's warm pool to workers, overridden by the group's own settings. A
// group whose pool has a maximum of 0 machines does not get the cluster's settings.
func setWarmPool(p *complete.Pass, g *api.InstanceGroup) {
	pool := p.Spec.CloudProvider.AWS.WarmPool
	if own := g.Spec.WarmPool; own != nil && own.MaxSize != nil && *own.MaxSize == 0 {
		return
	}
	worker := g.Spec.Role == api.RoleNode || g.Spec.Role == api.RoleAPIServer
	if pool != nil && worker && g.Spec.MaxPrice == nil && g.Spec.Manager != api.ManagerKarpenter {
		g.Spec.WarmPool = fill.Overlay(pool, g.Spec.WarmPool)
	}
}

package spec

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/validate"
)

// validation are the rules by which a cluster on AWS is checked.
func validation() validate.Rules {
	return validate.Rules{
		Cluster: []validate.Rule{
			{Name: "aws-address-ranges", Do: addressRanges},
			{Name: "service-account-permissions", Do: accountPermissions},
			{Name: "policies", Do: policies},
			{Name: "issuer-discovery", Do: issuer},
			{Name: "calico", Do: sourceCheck},
			{Name: "aws-load-balancers", Do: nlbGroups},
			{Name: "aws-node-names", Do: nodeNames},
			{Name: "aws-termination-handler", Do: terminationHandler},
			{Name: "warm-pool", Do: clusterWarmPool},
			{Name: "aws-etcd-volume", Do: etcdVolumes},
			{Name: "api-names", Do: apiNames},
			{Name: "rbac-modes", Do: rbacModes},
		},
		Group: []validate.GroupRule{
			{Name: "aws-root-volume", Do: rootVolume},
			{Name: "apiserver-names", Do: apiServerNames},
			{Name: "external-load-balancers", Do: externalBalancers},
			{Name: "instance-profile", Do: instanceProfile},
		},
	}
}

// isTrue and isFalse report whether the user or a rule said so; nil is neither.
func isTrue(p *bool) bool  { return p != nil && *p }
func isFalse(p *bool) bool { return p != nil && !*p }

// text is what p points to, or "".
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// rbacModes checks that role-based access is among the modes that the user lists.
func rbacModes(c *validate.Check) {
	a, rbac := c.Spec.KubeAPIServer, c.Spec.Authorization
	if a == nil || a.AuthorizationMode == nil || rbac == nil || rbac.RBAC == nil || rbac.AlwaysAllow != nil {
		return
	}
	modes := strings.Split(*a.AuthorizationMode, ",")
	for _, need := range []string{"Node", "RBAC"} {
		if !slices.Contains(modes, need) {
			c.Bad("spec.kubeAPIServer.authorizationMode", *a.AuthorizationMode, "lacks "+need+", which spec.authorization.rbac needs", "write Node,RBAC")
		}
	}
}

// The lengths that AWS allows for the range of a network or a subnet.
const (
	largestRange  = 16
	smallestRange = 28
)

// addressRanges checks that AWS can make the network and the subnets that are the cluster's own.
func addressRanges(c *validate.Check) {
	n := &c.Spec.Networking
	if n.NetworkID == "" {
		rangeSize(c, "spec.networkCIDR", n.NetworkCIDR, "")
		for i, r := range n.AdditionalNetworkCIDRs {
			rangeSize(c, validate.At("spec.additionalNetworkCIDRs", i), r, "")
		}
	}
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.ID == "" {
			rangeSize(c, path+".cidr", s.CIDR, n.NetworkCIDR)
		}
	})
}

// rangeSize refuses a range that is too large or too small. Of a subnet it says how large a network has to be whose
// parts are large enough. A subnet that is too large for AWS needs a network that is, too: where that network exists,
// kOps took the range, and it gets a warning.
func rangeSize(c *validate.Check, path, value, network string) {
	r, ok := validate.Parsed(value)
	if !ok || !r.Addr().Is4() {
		return
	}
	tooLarge := c.Bad
	if c.Spec.Networking.NetworkID != "" {
		tooLarge = c.Warn
	}
	switch whole, inNetwork := validate.Parsed(network); {
	case r.Bits() < largestRange:
		tooLarge(path, value, "is larger than AWS makes networks and subnets", fmt.Sprintf("write a range of /%d to /%d", largestRange, smallestRange))
	case r.Bits() > smallestRange && inNetwork:
		needed := max(largestRange, whole.Bits()-(r.Bits()-smallestRange))
		c.Bad(path, value, fmt.Sprintf("is smaller than /%d, the smallest subnet that AWS makes", smallestRange),
			fmt.Sprintf("write a larger range, or split a spec.networkCIDR of /%d or larger", needed))
	case r.Bits() > smallestRange:
		c.Bad(path, value, "is smaller than AWS makes networks and subnets", fmt.Sprintf("write a range of /%d to /%d", largestRange, smallestRange))
	}
}

// apiServerNames checks that machines with an API server alone are found.
func apiServerNames(c *validate.Check, g *api.InstanceGroup) {
	if g.Spec.Role == api.RoleAPIServer && c.Feature("APIServerNodes") && c.Spec.DNSType() == api.DNSNone {
		c.Bad("spec.role", "APIServer", "needs names in DNS on AWS, and spec.topology.dns.type is None", "publish names, or use Master")
	}
}

func nlbGroups(c *validate.Check) {
	if a := c.Spec.CloudProvider.AWS; a != nil {
		c.OneOf("spec.cloudConfig.nlbSecurityGroupMode", text(a.NLBSecurityGroupMode), "Managed")
	}
}

func nodeNames(c *validate.Check) {
	if a := c.Spec.CloudProvider.AWS; a != nil && isTrue(a.UseIPBasedNodeNames) && c.IPv6() {
		c.Bad("spec.cloudConfig.useIPBasedNodeNames", "true", "names are made of IPv4 addresses, and the cluster is IPv6", "remove it")
	}
}

func terminationHandler(c *validate.Check) {
	a := c.Spec.CloudProvider.AWS
	if a == nil || a.NodeTerminationHandler == nil {
		return
	}
	const path = "spec.nodeTerminationHandler."
	h := a.NodeTerminationHandler
	if k := c.Spec.Karpenter; k != nil && k.Enabled && isTrue(h.Enabled) {
		c.Bad(path+"enabled", "true", "Karpenter drains its nodes itself", "set it to false")
	}
	queue := !isFalse(h.EnableSQSTerminationDraining)
	if queue && isFalse(h.EnableSpotInterruptionDraining) {
		c.Bad(path+"enableSpotInterruptionDraining", "false", "the handler's queue always tells it of spot interruptions", "remove it")
	}
	if isTrue(h.EnableRebalanceMonitoring) != isTrue(h.EnableRebalanceDraining) && isTrue(h.EnableRebalanceMonitoring) && queue {
		c.Bad(path+"enableRebalanceMonitoring", "true", "has no effect without enableRebalanceDraining", "set both")
	}
}

// clusterWarmPool checks the pool that every group of nodes gets.
func clusterWarmPool(c *validate.Check) {
	a := c.Spec.CloudProvider.AWS
	if a == nil || a.WarmPool == nil {
		return
	}
	validate.WarmPool(c, a.WarmPool)
	if len(a.WarmPool.AdditionalImages) > 0 && a.WarmPool.MaxSize != nil {
		c.Bad("spec.warmPool.additionalImages", strings.Join(a.WarmPool.AdditionalImages, ","), "cannot stand together with maxSize", "leave one of them, or set it in the instance groups")
	}
}

// etcdVolumes checks what Elastic Block Store offers.
func etcdVolumes(c *validate.Check) {
	for i, e := range c.Spec.EtcdClusters {
		for j, m := range e.EtcdMembers {
			etcdVolume(c, validate.At(validate.At("spec.etcdClusters", i)+".etcdMembers", j), m)
		}
	}
}

func etcdVolume(c *validate.Check, path string, m api.EtcdMemberSpec) {
	kind, size, iops, throughput := "gp3", int64(20), int64(0), int64(0)
	if text(m.VolumeType) != "" {
		kind = *m.VolumeType
	}
	for to, from := range map[*int64]*int32{&size: m.VolumeSize, &iops: m.VolumeIOPS, &throughput: m.VolumeThroughput} {
		if from != nil {
			*to = int64(*from)
		}
	}
	most := map[string]int64{"io1": 50, "io2": 500, "gp3": 500}[kind]
	if most > 0 && (kind != "gp3" || iops > 3000) && iops > most*size {
		c.Bad(path+".volumeIops", validate.Number(iops), fmt.Sprintf("is more than %d for each GB of %s, and the volume has %d GB", most, kind, size), "lower it, or raise volumeSize")
	}
	if kind == "gp3" && throughput*4 > max(iops, 3000) {
		c.Bad(path+".volumeThroughput", validate.Number(throughput), "is more than a quarter of the volume's IOPS", "lower it, or raise volumeIops")
	}
}
func rootVolume(c *validate.Check, g *api.InstanceGroup) {
	if v := g.Spec.RootVolume; v != nil {
		c.OneOf("spec.rootVolumeType", text(v.Type), "standard", "gp3", "gp2", "io1", "io2")
	}
}

// apiNames checks that an API without a load balancer is found.
func apiNames(c *validate.Check) {
	a := &c.Spec.API
	if a.DNS != nil && a.LoadBalancer == nil && c.Spec.DNSType() == api.DNSNone {
		c.Bad("spec.api.dns", "", "the API has no load balancer, and its name is published nowhere, because spec.topology.dns.type is None",
			"write spec.api.loadBalancer with class: Network and type: Public, or publish names")
	}
}

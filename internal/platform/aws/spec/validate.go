package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/validate"
)

// validation returns the rules for checking a cluster on AWS.
func validation() validate.Rules {
	return validate.Rules{
		Cluster: []validate.Rule{
			{Name: "aws-address-ranges", Do: checkAddressRanges},
			{Name: "service-account-permissions", Do: checkAccountPermissions},
			{Name: "policies", Do: checkPolicies},
			{Name: "issuer-discovery", Do: checkIssuer},
			{Name: "calico", Do: checkSourceCheck},
			{Name: "aws-load-balancers", Do: checkNLBGroups},
			{Name: "aws-cilium-cluster", Do: checkCiliumCluster},
			{Name: "aws-node-names", Do: checkNodeNames},
			{Name: "aws-tag-lists", Do: checkTagLists},
			{Name: "aws-termination-handler", Do: checkTerminationHandler},
			{Name: "warm-pool", Do: checkWarmPool},
			{Name: "aws-etcd-volume", Do: checkEtcdVolumes},
			{Name: "api-names", Do: checkAPINames},
			{Name: "rbac-modes", Do: checkRBACModes},
		},
		Group: []validate.GroupRule{
			{Name: "aws-root-volume", Do: checkRootVolume},
			{Name: "karpenter-types", Do: checkExcludedTypes},
			{Name: "apiserver-names", Do: checkAPIServerNames},
			{Name: "external-load-balancers", Do: checkExternalBalancers},
			{Name: "instance-profile", Do: checkInstanceProfile},
		},
	}
}

// checkRBACModes checks that the user's list of modes contains what role-based access needs.
func checkRBACModes(c *validate.Check) {
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

// The prefix lengths that AWS allows for networks and subnets.
const (
	largestRange  = 16
	smallestRange = 28
)

// checkAddressRanges checks that AWS can create the cluster's own network and subnets.
func checkAddressRanges(c *validate.Check) {
	n := &c.Spec.Networking
	if n.NetworkID == "" {
		checkRangeSize(c, "spec.networkCIDR", n.NetworkCIDR, "")
		for i, r := range n.AdditionalNetworkCIDRs {
			checkRangeSize(c, validate.At("spec.additionalNetworkCIDRs", i), r, "")
		}
	}
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.ID == "" {
			checkRangeSize(c, path+".cidr", s.CIDR, n.NetworkCIDR)
		}
	})
}

// checkRangeSize rejects a range that is too large or too small. For a subnet, its remedy is the size of
// a network whose parts are large enough. A subnet that is too large for AWS would need a network
// that is, too: if that network exists, kOps accepted the range, so it is only a warning.
func checkRangeSize(c *validate.Check, path, value, network string) {
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
		tooLarge(path, value, "is larger than AWS allows for networks and subnets", fmt.Sprintf("write a range of /%d to /%d", largestRange, smallestRange))
	case r.Bits() > smallestRange && inNetwork:
		needed := max(largestRange, whole.Bits()-(r.Bits()-smallestRange))
		c.Bad(path, value, fmt.Sprintf("is smaller than /%d, the smallest subnet that AWS allows", smallestRange),
			fmt.Sprintf("write a larger range, or split a spec.networkCIDR of /%d or larger", needed))
	case r.Bits() > smallestRange:
		c.Bad(path, value, "is smaller than AWS allows for networks and subnets", fmt.Sprintf("write a range of /%d to /%d", largestRange, smallestRange))
	}
}

// checkAPIServerNames checks that machines with only an API server can be found.
func checkAPIServerNames(c *validate.Check, g *api.InstanceGroup) {
	if g.Spec.Role == api.RoleAPIServer && c.Feature("APIServerNodes") && c.Spec.DNSType() == api.DNSNone {
		c.Bad("spec.role", "APIServer", "needs DNS names on AWS, but spec.topology.dns.type is None", "publish names, or use Master")
	}
}

func checkNLBGroups(c *validate.Check) {
	if a := c.Spec.CloudProvider.AWS; a != nil {
		c.OneOf("spec.cloudConfig.nlbSecurityGroupMode", fill.Or(a.NLBSecurityGroupMode, ""), "Managed")
	}
}

// checkTagLists warns about tags that cannot be in the list of a controller's command line, so that
// what the controller creates does not have them.
func checkTagLists(c *validate.Check) {
	a := c.Spec.CloudProvider.AWS
	if a == nil {
		return
	}
	volumes := a.EBSCSIDriver == nil || !validate.IsFalse(a.EBSCSIDriver.Managed)
	balancers := a.LoadBalancerController != nil && validate.IsTrue(a.LoadBalancerController.Enabled)
	for _, key := range slices.Sorted(maps.Keys(c.Spec.CloudLabels)) {
		path, value := "spec.cloudLabels["+key+"]", c.Spec.CloudLabels[key]
		equals := strings.Contains(key, "=")
		if volumes && (equals || strings.Contains(key+value, ",")) {
			c.Warn(path, value, "is not a tag of the volumes of persistent volume claims: the EBS CSI driver reads a list of KEY=VALUE, separated by commas", "choose a key and a value without commas, and a key without =, or set the tag with tagSpecification_1 in the parameters of a StorageClass")
		}
		if balancers && equals {
			c.Warn(path, value, "is not a tag of the resources of the AWS load balancer controller, which reads a list of KEY=VALUE", "choose a key without =")
		}
	}
}

// checkExcludedTypes warns about patterns of machine types that Karpenter does not know.
func checkExcludedTypes(c *validate.Check, g *api.InstanceGroup) {
	p := g.Spec.MixedInstancesPolicy
	if g.Spec.Manager != api.ManagerKarpenter || p == nil || p.InstanceRequirements == nil {
		return
	}
	for i, text := range p.InstanceRequirements.ExcludedInstanceTypes {
		if _, _, ok := excludedTypes(text); !ok {
			c.Warn(validate.At("spec.mixedInstancesPolicy.instanceRequirements.excludedInstanceTypes", i), text, "has no effect: Karpenter excludes single types and families only", "write types such as m5.large, or families such as m5.*")
		}
	}
}

func checkNodeNames(c *validate.Check) {
	if a := c.Spec.CloudProvider.AWS; a != nil && validate.IsTrue(a.UseIPBasedNodeNames) && c.IPv6() {
		c.Bad("spec.cloudConfig.useIPBasedNodeNames", "true", "these names are made of IPv4 addresses, but the cluster is IPv6", "remove it")
	}
}

func checkTerminationHandler(c *validate.Check) {
	a := c.Spec.CloudProvider.AWS
	if a == nil || a.NodeTerminationHandler == nil {
		return
	}
	const path = "spec.nodeTerminationHandler."
	h := a.NodeTerminationHandler
	if k := c.Spec.Karpenter; k != nil && k.Enabled && validate.IsTrue(h.Enabled) {
		c.Bad(path+"enabled", "true", "Karpenter drains its nodes itself", "set it to false")
	}
	queue := !validate.IsFalse(h.EnableSQSTerminationDraining)
	if queue && validate.IsFalse(h.EnableSpotInterruptionDraining) {
		c.Bad(path+"enableSpotInterruptionDraining", "false", "the handler's queue always reports spot interruptions", "remove it")
	}
	if validate.IsTrue(h.EnableRebalanceMonitoring) != validate.IsTrue(h.EnableRebalanceDraining) && validate.IsTrue(h.EnableRebalanceMonitoring) && queue {
		c.Bad(path+"enableRebalanceMonitoring", "true", "has no effect without enableRebalanceDraining", "set both")
	}
}

// checkWarmPool checks the warm pool of all groups of nodes.
func checkWarmPool(c *validate.Check) {
	a := c.Spec.CloudProvider.AWS
	if a == nil || a.WarmPool == nil {
		return
	}
	validate.WarmPool(c, a.WarmPool)
	if len(a.WarmPool.AdditionalImages) > 0 && a.WarmPool.MaxSize != nil {
		c.Bad("spec.warmPool.additionalImages", strings.Join(a.WarmPool.AdditionalImages, ","), "cannot be combined with maxSize", "keep only one of them, or set it in the instance groups")
	}
}

// checkEtcdVolumes checks the limits of Elastic Block Store.
func checkEtcdVolumes(c *validate.Check) {
	c.EachMember(func(path string, m api.EtcdMemberSpec) { checkEtcdVolume(c, path, m) })
}

func checkEtcdVolume(c *validate.Check, path string, m api.EtcdMemberSpec) {
	kind, size, iops, throughput := "gp3", int64(20), int64(0), int64(0)
	if fill.Or(m.VolumeType, "") != "" {
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
func checkRootVolume(c *validate.Check, g *api.InstanceGroup) {
	if v := g.Spec.RootVolume; v != nil {
		c.OneOf("spec.rootVolumeType", fill.Or(v.Type, ""), "standard", "gp3", "gp2", "io1", "io2")
	}
}

// checkAPINames checks that an API without a load balancer can be found.
func checkAPINames(c *validate.Check) {
	a := &c.Spec.API
	if a.DNS != nil && a.LoadBalancer == nil && c.Spec.DNSType() == api.DNSNone {
		c.Bad("spec.api.dns", "", "the API has neither a load balancer nor a published name, because spec.topology.dns.type is None",
			"write spec.api.loadBalancer with class: Network and type: Public, or publish names")
	}
}

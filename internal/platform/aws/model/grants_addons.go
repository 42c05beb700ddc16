package model

import (
	"slices"

	"kops.local/kops/api"
)

// grantLoadBalancerController is what the installation page of the AWS load
// balancer controller asks for, bounded to what carries the cluster's tag.
func (m *model) grantLoadBalancerController() grant {
	g := grant{
		free: slices.Concat(
			[]string{"acm:DescribeCertificate", "acm:ListCertificates", "cognito-idp:DescribeUserPoolClient",
				"ec2:GetCoipPoolUsage", "ec2:GetSecurityGroupsForVpc", "iam:CreateServiceLinkedRole",
				"iam:GetServerCertificate", "iam:ListServerCertificates"},
			prefixed("ec2:Describe", "AccountAttributes", "Addresses", "AvailabilityZones", "CoipPools", "Instances", "InternetGateways",
				"IpamPools", "NetworkInterfaces", "RouteTables", "SecurityGroups", "Subnets", "Tags", "VpcPeeringConnections", "Vpcs"),
			prefixed("elasticloadbalancing:Describe", "CapacityReservation", "ListenerAttributes", "ListenerCertificates", "Listeners",
				"LoadBalancerAttributes", "LoadBalancers", "Rules", "SSLPolicies", "Tags", "TargetGroupAttributes", "TargetGroups",
				"TargetHealth", "TrustStores")),
		owned: slices.Concat(
			prefixed("ec2:", "AuthorizeSecurityGroupIngress", "DeleteSecurityGroup", "RevokeSecurityGroupIngress"),
			prefixed("elasticloadbalancing:", "AddListenerCertificates", "AddTags", "CreateListener", "CreateRule", "DeleteListener",
				"DeleteLoadBalancer", "DeleteRule", "DeleteTargetGroup", "DeregisterTargets", "ModifyCapacityReservation", "ModifyIpPools",
				"ModifyListener", "ModifyListenerAttributes", "ModifyLoadBalancerAttributes", "ModifyRule", "ModifyTargetGroup",
				"ModifyTargetGroupAttributes", "RegisterTargets", "RemoveListenerCertificates", "RemoveTags", "SetIpAddressType",
				"SetRulePriorities", "SetSecurityGroups", "SetSubnets", "SetWebAcl")),
		made: append(prefixed("elasticloadbalancing:Create", "Listener", "LoadBalancer", "Rule", "TargetGroup"), "ec2:CreateSecurityGroup"),
		more: m.tagging(list(m.ec2ARN("security-group")), "CreateSecurityGroup"),
	}
	c := m.aws.LoadBalancerController
	if c.EnableWAF {
		g.free = append(g.free, prefixed("waf-regional:", "AssociateWebACL", "DisassociateWebACL", "GetWebACL", "GetWebACLForResource")...)
	}
	if c.EnableWAFv2 {
		g.free = append(g.free, prefixed("wafv2:", "AssociateWebACL", "DisassociateWebACL", "GetWebACL", "GetWebACLForResource")...)
	}
	if c.EnableShield {
		g.free = append(g.free, prefixed("shield:", "CreateProtection", "DeleteProtection", "DescribeProtection", "GetSubscriptionState")...)
	}
	return g
}

// tagNodePool is the tag by which Karpenter knows what it made.
const tagNodePool = "karpenter.sh/nodepool"

// grantKarpenter is what Karpenter's reference of its controller policy asks
// for, without the parts on instance profiles, which are the cluster's.
func (m *model) grantKarpenter() grant {
	made := m.ec2ARNs("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
	request := func(s statement) statement {
		return s.under("StringEquals", keyRequestTag+clusterTag, one(m.name)).under("StringLike", keyRequestTag+tagNodePool, one("*"))
	}
	existing := func(s statement) statement {
		return s.under("StringEquals", keyResourceTag+clusterTag, one(m.name)).under("StringLike", keyResourceTag+tagNodePool, one("*"))
	}
	return grant{
		free: append(prefixed("ec2:Describe", "AvailabilityZones", "CapacityReservations", "Images", "InstanceStatus", "InstanceTypeOfferings",
			"InstanceTypes", "Instances", "LaunchTemplates", "PlacementGroups", "SecurityGroups", "SpotPriceHistory", "Subnets"),
			"pricing:GetProducts", "iam:GetInstanceProfile", "iam:ListInstanceProfiles"),
		more: []statement{
			allow(list("ec2:CreateFleet", "ec2:RunInstances"), list(append(
				[]string{m.arn("ec2", "*::image/*"), m.arn("ec2", "*::snapshot/*")},
				m.ec2ARNs("capacity-reservation", "placement-group", "security-group", "subnet")...)...)),
			existing(allow(list("ec2:CreateFleet", "ec2:RunInstances"), list(m.ec2ARN("launch-template")))),
			request(allow(list("ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"), list(made...))),
			request(allow(one("ec2:CreateTags"), list(made...))).
				under("StringEquals", "ec2:CreateAction", list("CreateFleet", "CreateLaunchTemplate", "RunInstances")),
			existing(allow(one("ec2:CreateTags"), list(m.ec2ARN("instance")))),
			existing(allow(list("ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"), list(m.ec2ARNs("instance", "launch-template")...))),
			allow(one("ssm:GetParameter"), list(m.arn("ssm", "*::parameter/aws/service/*"), m.arn("ssm", "*:"+m.account.AccountID+":parameter/*"))),
			allow(one("iam:PassRole"), list(m.karpenterRoles()...)).under("StringEquals", "iam:PassedToService", one(m.ec2Service())),
		},
	}
}

func (m *model) ec2ARNs(kinds ...string) []string {
	var arns []string
	for _, k := range kinds {
		arns = append(arns, m.ec2ARN(k))
	}
	return arns
}

// karpenterRoles are those that Karpenter may give to machines: the nodes', or
// any where a group brings an instance profile of its own.
func (m *model) karpenterRoles() []string {
	for _, g := range m.groupsOf(api.RoleNode) {
		if g.Spec.Manager == api.ManagerKarpenter && profileOf(g) != "" {
			return []string{m.arn("iam", ":"+m.account.AccountID+":role/*")}
		}
	}
	return []string{m.arn("iam", ":"+m.account.AccountID+":role/"+m.roleName(api.RoleNode))}
}

package aws

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// phases say which part of an update a kind belongs to; the others are of the part cluster.
func phases() map[string]string {
	out := map[string]string{}
	for _, k := range []string{
		"aws_vpc", "aws_vpc_ipv4_cidr_block_association", "aws_vpc_dhcp_options", "aws_vpc_dhcp_options_association",
		"aws_internet_gateway", "aws_egress_only_internet_gateway", "aws_subnet", "aws_subnet_tags", "aws_eip", "aws_nat_gateway",
		"aws_route_table", "aws_route_table_association", "aws_route", "aws_route53_zone_association",
	} {
		out[k] = "network"
	}
	for _, k := range []string{
		"aws_security_group", "aws_security_group_rule", "aws_iam_role", "aws_iam_role_policy",
		"aws_iam_role_policy_attachment", "aws_iam_instance_profile", "aws_iam_openid_connect_provider", "aws_key_pair",
	} {
		out[k] = "security"
	}
	return out
}

// tasks are kOps' names of kinds.
func tasks() map[string]string {
	return map[string]string{
		"VPC": "aws_vpc", "VPCCIDRBlock": "aws_vpc_ipv4_cidr_block_association", "DHCPOptions": "aws_vpc_dhcp_options",
		"VPCDHCPOptionsAssociation": "aws_vpc_dhcp_options_association", "InternetGateway": "aws_internet_gateway",
		"EgressOnlyInternetGateway": "aws_egress_only_internet_gateway", "Subnet": "aws_subnet", "ElasticIP": "aws_eip",
		"NatGateway": "aws_nat_gateway", "RouteTable": "aws_route_table", "RouteTableAssociation": "aws_route_table_association",
		"Route": "aws_route", "SecurityGroup": "aws_security_group", "SecurityGroupRule": "aws_security_group_rule",
		"IAMRole": "aws_iam_role", "IAMRolePolicy": "aws_iam_role_policy", "IAMInstanceProfile": "aws_iam_instance_profile",
		"IAMInstanceProfileRole": "aws_iam_instance_profile", "IAMOIDCProvider": "aws_iam_openid_connect_provider",
		"SSHKey": "aws_key_pair", "EBSVolume": "aws_ebs_volume", "LaunchTemplate": "aws_launch_template",
		"AutoscalingGroup": "aws_autoscaling_group", "AutoscalingLifecycleHook": "aws_autoscaling_lifecycle_hook",
		"NetworkLoadBalancer": "aws_lb", "NetworkLoadBalancerListener": "aws_lb_listener", "TargetGroup": "aws_lb_target_group",
		"DNSName": "aws_route53_record", "DNSZone": "aws_route53_zone_association", "SQS": "aws_sqs_queue",
		"EventBridgeRule": "aws_cloudwatch_event_rule", "EventBridgeTarget": "aws_cloudwatch_event_target", "ManagedFile": "aws_s3_object",
	}
}

// groupTag names the instance group of a template and of a scaling group.
const groupTag = api.LabelInstanceGroup

// groupOf returns the instance group that a node makes machines of, or "".
func groupOf(n resource.Node) string {
	switch x := n.Want.(type) {
	case *kinds.LaunchTemplate:
		return x.Tags[groupTag]
	case *kinds.AutoScalingGroup:
		for _, t := range x.Tags {
			if t.Key == groupTag {
				return t.Value
			}
		}
	case *kinds.LifecycleHook:
		for _, suffix := range []string{"-NTHLifecycleHook"} {
			if g, ok := strings.CutSuffix(n.Name, suffix); ok {
				return g
			}
		}
		if g, ok := strings.CutPrefix(n.Name, "kops-warmpool-"); ok {
			return g
		}
	}
	return ""
}

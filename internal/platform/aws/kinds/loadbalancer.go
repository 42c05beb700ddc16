package kinds

import (
	"context"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// LoadBalancer is a network load balancer.
type LoadBalancer struct {
	Name string `res:"forbid" tf:"name"` // at most 32 characters
	// Type is "network".
	Type     string `res:"replace" tf:"load_balancer_type"`
	Internal bool   `res:"replace" tf:"internal,zero"`
	// IPAddressType is "ipv4" or "dualstack"; empty for AWS' default.
	IPAddressType  string           `res:"default" tf:"ip_address_type"`
	SecurityGroups []resource.Value `tf:"security_groups"`
	Subnets        []SubnetMapping  `tf:"subnet_mapping,block"`
	CrossZone      bool             `res:",post" tf:"enable_cross_zone_load_balancing,zero"`
	AccessLogs     *AccessLogs      `res:",post" tf:"access_logs,block"`
	Tags           Tags             `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	ID  string `res:"out,id" out:"id"` // the ARN
	// DNSName is the name that clients resolve, in lower case.
	DNSName string `res:"out" out:"address" tf:"dns_name"`
	// ZoneID is the hosted zone of DNSName, the same for all load balancers in a region.
	ZoneID string `res:"out" out:"zone" tf:"zone_id"`
}

// SubnetMapping is a load balancer's subnet and address in one zone.
type SubnetMapping struct {
	Subnet resource.Value `tf:"subnet_id"`
	// AllocationID is the ID of an elastic IP; empty for an address chosen by AWS.
	AllocationID resource.Value `tf:"allocation_id"`
	// PrivateIPv4 is the fixed address of an internal load balancer.
	PrivateIPv4 string `tf:"private_ipv4_address"`
}

// AccessLogs specifies where a load balancer logs its connections.
type AccessLogs struct {
	Enabled bool   `tf:"enabled,zero"`
	Bucket  string `tf:"bucket"`
	Prefix  string `tf:"prefix"`
}

// LoadBalancers is the kind of LoadBalancer.
var LoadBalancers = resource.Kind[LoadBalancer, *Client]{
	Name:   "aws_lb",
	API:    apiELB,
	Tasks:  []string{"NetworkLoadBalancer"},
	Key:    func(l *LoadBalancer) string { return l.Name },
	List:   listLoadBalancers,
	Create: createLoadBalancer,
	Update: []resource.Setter[LoadBalancer, *Client]{
		{Fields: []string{"IPAddressType"}, Set: setIPAddressType},
		{Fields: []string{"SecurityGroups"}, Set: setLoadBalancerGroups},
		{Fields: []string{"Subnets"}, Set: setLoadBalancerSubnets},
		{Fields: []string{"CrossZone", "AccessLogs"}, Set: setLoadBalancerAttributes},
		{Fields: []string{"Tags"}, Set: func(ctx context.Context, c *Client, have, want *LoadBalancer) error {
			return retagELB(ctx, c, have.ARN, have.Tags, want.Tags)
		}},
	},
	// Resources may refer to a load balancer before it accepts connections, so it needs no Ready.
	Delete: deleteLoadBalancer,
}

func deleteLoadBalancer(ctx context.Context, c *Client, l *LoadBalancer) error {
	_, err := c.ELB.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: &l.ARN})
	if hasCode(err, "OperationNotPermitted") {
		return fault.Wrap(fault.Permanent, err, "switch off the deletion protection of the load balancer "+l.Name)
	}
	return fault.IgnoreGone(err)
}

// scheme returns the scheme of an internal or internet-facing load balancer.
func scheme(internal bool) elbtypes.LoadBalancerSchemeEnum {
	if internal {
		return elbtypes.LoadBalancerSchemeEnumInternal
	}
	return elbtypes.LoadBalancerSchemeEnumInternetFacing
}

func createLoadBalancer(ctx context.Context, c *Client, l *LoadBalancer) error {
	out, err := c.ELB.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		Name:           &l.Name,
		Type:           elbtypes.LoadBalancerTypeEnum(l.Type),
		Scheme:         scheme(l.Internal),
		IpAddressType:  elbtypes.IpAddressType(l.IPAddressType),
		SecurityGroups: resource.Texts(l.SecurityGroups),
		SubnetMappings: subnetMappings(l.Subnets),
		Tags:           elbTags(l.Tags),
	})
	if err != nil {
		return err
	}
	l.setOutputs(out.LoadBalancers[0])
	return nil
}

func (l *LoadBalancer) setOutputs(got elbtypes.LoadBalancer) {
	l.ARN, l.ID = *got.LoadBalancerArn, *got.LoadBalancerArn
	l.DNSName, l.ZoneID = dnsName(deref(got.DNSName)), deref(got.CanonicalHostedZoneId)
}

func setIPAddressType(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	_, err := c.ELB.SetIpAddressType(ctx, &elb.SetIpAddressTypeInput{
		LoadBalancerArn: &have.ARN, IpAddressType: elbtypes.IpAddressType(want.IPAddressType)})
	return err
}

func setLoadBalancerGroups(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	_, err := c.ELB.SetSecurityGroups(ctx, &elb.SetSecurityGroupsInput{
		LoadBalancerArn: &have.ARN, SecurityGroups: resource.Texts(want.SecurityGroups)})
	return err
}

func setLoadBalancerSubnets(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	_, err := c.ELB.SetSubnets(ctx, &elb.SetSubnetsInput{LoadBalancerArn: &have.ARN, SubnetMappings: subnetMappings(want.Subnets)})
	return err
}

func subnetMappings(subnets []SubnetMapping) []elbtypes.SubnetMapping {
	out := make([]elbtypes.SubnetMapping, len(subnets))
	for i, s := range subnets {
		out[i] = elbtypes.SubnetMapping{SubnetId: new(s.Subnet.Text()), AllocationId: stringOrNil(s.AllocationID.Text()),
			PrivateIPv4Address: stringOrNil(s.PrivateIPv4)}
	}
	return out
}

// Keys of load balancers' attributes (API reference, LoadBalancerAttribute).
const (
	attrCrossZone   = "load_balancing.cross_zone.enabled"
	attrLogsEnabled = "access_logs.s3.enabled"
	attrLogsBucket  = "access_logs.s3.bucket"
	attrLogsPrefix  = "access_logs.s3.prefix"
)

// setLoadBalancerAttributes also sets attributes to AWS' defaults, as kOps does: kOps considers an
// attribute that was never set as different.
func setLoadBalancerAttributes(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	set := map[string]string{attrCrossZone: boolText(want.CrossZone), attrLogsEnabled: "false"}
	if logs := want.AccessLogs; logs != nil && logs.Enabled {
		set[attrLogsEnabled], set[attrLogsBucket], set[attrLogsPrefix] = "true", logs.Bucket, logs.Prefix
	}
	_, err := c.ELB.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{
		LoadBalancerArn: &have.ARN,
		Attributes: pairs(set, func(k, v *string) elbtypes.LoadBalancerAttribute {
			return elbtypes.LoadBalancerAttribute{Key: k, Value: v}
		}),
	})
	return err
}

package kinds

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Subnet is a part of a VPC in one zone. Its ranges, its zone and its address family cannot change,
// because machines run in it.
type Subnet struct {
	VPC  resource.Value `res:"forbid" tf:"vpc_id"`
	Zone string         `res:"forbid" tf:"availability_zone"`
	CIDR string         `res:"forbid" tf:"cidr_block"` // empty for an IPv6-only subnet
	// IPv6CIDR is an IPv6 range with a 64-bit prefix; empty accepts the subnet's current range.
	IPv6CIDR string `res:"default" tf:"ipv6_cidr_block"`
	// IPv6Part is a range relative to the VPC's, as returned by IPv6Part, instead of IPv6CIDR.
	IPv6Part   resource.Value `res:"writeonly" tf:"ipv6_cidr_block,raw"`
	IPv6Native bool           `res:"forbid" tf:"ipv6_native"`

	AssignIPv6 bool `res:",post" tf:"assign_ipv6_address_on_creation"`
	DNS64      bool `res:",post" tf:"enable_dns64"`
	// ResourceNameA and ResourceNameAAAA make a machine's resource name resolve to its addresses.
	ResourceNameA    bool `res:",post" tf:"enable_resource_name_dns_a_record_on_launch"`
	ResourceNameAAAA bool `res:",post" tf:"enable_resource_name_dns_aaaa_record_on_launch"`
	// HostnameType is "ip-name" or "resource-name"; empty leaves it unchanged. It is set whenever
	// one of the two fields above changes, and not compared.
	HostnameType string `res:"writeonly" tf:"private_dns_hostname_type_on_launch"`
	Tags         Tags   `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// Subnets is the kind of Subnet.
var Subnets = resource.Kind[Subnet, *Client]{
	Name:  "aws_subnet",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"Subnet"},
	Early: true,
	Key:   func(s *Subnet) string { return s.Tags[TagName] },
	Tidy:  func(s *Subnet) { s.IPv6CIDR = canonicalRange(s.IPv6CIDR) },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Subnet, error) {
		list, err := subnetDescriber.listAll(ctx, c, s)
		return convert(list, err, subnetOf)
	},
	Create:  createSubnet,
	Initial: func(s *Subnet) { s.AssignIPv6 = s.IPv6Native },
	Update: []resource.Setter[Subnet, *Client]{
		{Fields: []string{"IPv6CIDR"}, Set: setSubnetIPv6},
		{Fields: []string{"AssignIPv6"}, Set: setAssignIPv6},
		{Fields: []string{"DNS64"}, Set: setDNS64},
		{Fields: []string{"ResourceNameA", "ResourceNameAAAA"}, Set: setSubnetNames},
		tagSetter(func(s *Subnet) (string, map[string]string) { return s.ID, s.Tags }),
	},
	Delete: deleteSubnet,
}

var subnetDescriber = describer[ec2types.Subnet]{
	what: "subnets", id: "subnet-id",
	tags: func(s ec2types.Subnet) []ec2types.Tag { return s.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.Subnet, error) {
		return pages(ctx, ec2.NewDescribeSubnetsPaginator(c.EC2, &ec2.DescribeSubnetsInput{Filters: f}),
			func(o *ec2.DescribeSubnetsOutput) []ec2types.Subnet { return o.Subnets })
	},
}

func subnetOf(d ec2types.Subnet) *Subnet {
	s := &Subnet{
		VPC: text(d.VpcId), Zone: aws.ToString(d.AvailabilityZone), CIDR: aws.ToString(d.CidrBlock),
		IPv6Native: aws.ToBool(d.Ipv6Native), AssignIPv6: aws.ToBool(d.AssignIpv6AddressOnCreation),
		DNS64: aws.ToBool(d.EnableDns64), Tags: tagMap(d.Tags), ID: aws.ToString(d.SubnetId)}
	for _, a := range d.Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState == nil || a.Ipv6CidrBlockState.State == ec2types.SubnetCidrBlockStateCodeDisassociated {
			continue
		}
		s.IPv6CIDR = aws.ToString(a.Ipv6CidrBlock)
	}
	if o := d.PrivateDnsNameOptionsOnLaunch; o != nil {
		s.ResourceNameA, s.ResourceNameAAAA = aws.ToBool(o.EnableResourceNameDnsARecord), aws.ToBool(o.EnableResourceNameDnsAAAARecord)
		s.HostnameType = string(o.HostnameType)
	}
	return s
}

func createSubnet(ctx context.Context, c *Client, s *Subnet) error {
	v6, err := ipv6RangeOf(s)
	if err != nil {
		return fmt.Errorf("IPv6 range of subnet %s: %w", s.Tags[TagName], err)
	}
	in := &ec2.CreateSubnetInput{
		VpcId: aws.String(s.VPC.Text()), AvailabilityZone: &s.Zone, CidrBlock: stringOrNil(s.CIDR), Ipv6CidrBlock: stringOrNil(v6),
		TagSpecifications: tagSpec(ec2types.ResourceTypeSubnet, s.Tags)}
	if s.IPv6Native {
		in.Ipv6Native = aws.Bool(true)
	}
	o, err := c.EC2.CreateSubnet(ctx, in)
	if err != nil {
		return err
	}
	s.ID = aws.ToString(o.Subnet.SubnetId)
	return nil
}

// setSubnetIPv6 adds an IPv6 range to a subnet without one.
func setSubnetIPv6(ctx context.Context, c *Client, have, want *Subnet) error {
	if have.IPv6CIDR != "" {
		return fault.Wrap(fault.Permanent, fmt.Errorf("subnet %s has the IPv6 range %s, not %s", have.ID, have.IPv6CIDR, want.IPv6CIDR),
			"set the range in the cluster's spec to the one that the subnet has")
	}
	_, err := c.EC2.AssociateSubnetCidrBlock(ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: &have.ID, Ipv6CidrBlock: &want.IPv6CIDR})
	return err
}

// modifySubnet changes the one attribute that in contains: the API accepts one per call.
func modifySubnet(ctx context.Context, c *Client, s *Subnet, in ec2.ModifySubnetAttributeInput) error {
	in.SubnetId = &s.ID
	_, err := c.EC2.ModifySubnetAttribute(ctx, &in)
	return err
}

func setAssignIPv6(ctx context.Context, c *Client, have, want *Subnet) error {
	return modifySubnet(ctx, c, have, ec2.ModifySubnetAttributeInput{
		AssignIpv6AddressOnCreation: &ec2types.AttributeBooleanValue{Value: &want.AssignIPv6}})
}

func setDNS64(ctx context.Context, c *Client, have, want *Subnet) error {
	return modifySubnet(ctx, c, have, ec2.ModifySubnetAttributeInput{
		EnableDns64: &ec2types.AttributeBooleanValue{Value: &want.DNS64}})
}

// setSubnetNames sets how machines are named. It sets the A record last: its value shows that
// everything was set.
func setSubnetNames(ctx context.Context, c *Client, have, want *Subnet) error {
	if want.HostnameType != "" {
		err := modifySubnet(ctx, c, have, ec2.ModifySubnetAttributeInput{
			PrivateDnsHostnameTypeOnLaunch: ec2types.HostnameType(want.HostnameType)})
		if err != nil {
			return err
		}
	}
	if have.ResourceNameAAAA != want.ResourceNameAAAA {
		err := modifySubnet(ctx, c, have, ec2.ModifySubnetAttributeInput{
			EnableResourceNameDnsAAAARecordOnLaunch: &ec2types.AttributeBooleanValue{Value: &want.ResourceNameAAAA}})
		if err != nil {
			return err
		}
	}
	if have.ResourceNameA == want.ResourceNameA {
		return nil
	}
	return modifySubnet(ctx, c, have, ec2.ModifySubnetAttributeInput{
		EnableResourceNameDnsARecordOnLaunch: &ec2types.AttributeBooleanValue{Value: &want.ResourceNameA}})
}

func deleteSubnet(ctx context.Context, c *Client, s *Subnet) error {
	_, err := c.EC2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &s.ID})
	if fault.Is(err, fault.Conflict) {
		return inUseError("subnet "+s.ID, interfacesOf(ctx, c, "subnet-id", s.ID), err)
	}
	return fault.IgnoreGone(err)
}

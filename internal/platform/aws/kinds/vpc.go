package kinds

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// VPC is the cluster's network.
type VPC struct {
	CIDR string `res:"forbid" tf:"cidr_block"`
	// AmazonIPv6 assigns the VPC an IPv6 range with a 56-bit prefix from Amazon's pool.
	AmazonIPv6   bool `tf:"assign_generated_ipv6_cidr_block"`
	DNSHostnames bool `res:",post" tf:"enable_dns_hostnames,zero"`
	DNSSupport   bool `res:",post" tf:"enable_dns_support,zero"`
	Tags         Tags `tf:"tags"`

	ID string `res:"out,id" out:"id"`
	// IPv6CIDR is the IPv6 range; empty if it has none.
	IPv6CIDR string `res:"out,volatile" out:"cidr6" tf:"ipv6_cidr_block"`
}

// VPCs is the kind of VPC.
var VPCs = resource.Kind[VPC, *Client]{
	Name:    "aws_vpc",
	API:     apiEC2,
	Phase:   resource.Network,
	Tasks:   []string{"VPC"},
	Early:   true,
	Key:     func(v *VPC) string { return v.Tags[TagName] },
	List:    listVPCs,
	Create:  createVPC,
	Initial: func(v *VPC) { v.DNSSupport = true },
	Ready:   waitForVPC,
	Update: []resource.Setter[VPC, *Client]{
		{Fields: []string{"AmazonIPv6"}, Set: setVPCIPv6},
		{Fields: []string{"DNSSupport"}, Set: setVPCDNSSupport}, // DNS host names need it
		{Fields: []string{"DNSHostnames"}, Set: setVPCDNSHostnames},
		tagSetter(func(v *VPC) (string, map[string]string) { return v.ID, v.Tags }),
	},
	Delete: deleteVPC,
}

var vpcDescriber = describer[ec2types.Vpc]{
	what: "vpcs", id: "vpc-id",
	tags: func(v ec2types.Vpc) []ec2types.Tag { return v.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.Vpc, error) {
		return pages(ctx, ec2.NewDescribeVpcsPaginator(c.EC2, &ec2.DescribeVpcsInput{Filters: f}),
			func(o *ec2.DescribeVpcsOutput) []ec2types.Vpc { return o.Vpcs })
	},
}

func listVPCs(ctx context.Context, c *Client, s resource.Scope) ([]*VPC, error) {
	list, err := vpcDescriber.listAll(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return observe.Each(ctx, list, func(ctx context.Context, d ec2types.Vpc) (*VPC, error) {
		v := vpcOf(d)
		if !isOwned(v.Tags, s.Cluster) {
			return v, nil // a shared VPC is not compared
		}
		var err error
		if v.DNSSupport, err = vpcAttribute(ctx, c, v.ID, ec2types.VpcAttributeNameEnableDnsSupport); err != nil {
			return nil, err
		}
		v.DNSHostnames, err = vpcAttribute(ctx, c, v.ID, ec2types.VpcAttributeNameEnableDnsHostnames)
		return v, err
	})
}

func vpcOf(d ec2types.Vpc) *VPC {
	v := &VPC{CIDR: aws.ToString(d.CidrBlock), Tags: tagMap(d.Tags), ID: aws.ToString(d.VpcId)}
	_, v.IPv6CIDR, v.AmazonIPv6 = ipv6Of(d)
	return v
}

// ipv6Of returns the association of a VPC's IPv6 range. The range is empty until it is associated.
func ipv6Of(d ec2types.Vpc) (id, cidr string, exists bool) {
	for _, a := range d.Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState == nil {
			continue
		}
		switch a.Ipv6CidrBlockState.State {
		case ec2types.VpcCidrBlockStateCodeAssociated:
			return aws.ToString(a.AssociationId), aws.ToString(a.Ipv6CidrBlock), true
		case ec2types.VpcCidrBlockStateCodeAssociating:
			id, exists = aws.ToString(a.AssociationId), true
		}
	}
	return id, "", exists
}

// vpcAttribute requests one attribute, because the API has no call for several.
func vpcAttribute(ctx context.Context, c *Client, id string, name ec2types.VpcAttributeName) (bool, error) {
	return oncePerSnapshot(ctx, c, fmt.Sprint(name, " of ", id), func(ctx context.Context) (bool, error) {
		o, err := c.EC2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &id, Attribute: name})
		if err != nil {
			return false, err
		}
		for _, v := range []*ec2types.AttributeBooleanValue{o.EnableDnsSupport, o.EnableDnsHostnames} {
			if v != nil {
				return aws.ToBool(v.Value), nil
			}
		}
		return false, nil
	})
}

func createVPC(ctx context.Context, c *Client, v *VPC) error {
	o, err := c.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: &v.CIDR, AmazonProvidedIpv6CidrBlock: &v.AmazonIPv6,
		TagSpecifications: tagSpec(ec2types.ResourceTypeVpc, v.Tags)})
	if err != nil {
		return err
	}
	v.ID = aws.ToString(o.Vpc.VpcId)
	_, v.IPv6CIDR, _ = ipv6Of(*o.Vpc)
	return nil
}

// waitForVPC waits for the IPv6 range, which subnets are allocated from.
func waitForVPC(ctx context.Context, c *Client, v *VPC) error {
	if !v.AmazonIPv6 || v.IPv6CIDR != "" {
		return nil
	}
	d, err := describeVPC(ctx, c, v.ID)
	if err != nil {
		return retryIfGone(err)
	}
	if _, v.IPv6CIDR, _ = ipv6Of(d); v.IPv6CIDR == "" {
		return fault.New(fault.NotYet, "VPC %s has no IPv6 range yet", v.ID)
	}
	return nil
}

func describeVPC(ctx context.Context, c *Client, id string) (ec2types.Vpc, error) {
	o, err := c.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{id}})
	if err != nil {
		return ec2types.Vpc{}, err
	}
	if len(o.Vpcs) == 0 {
		return ec2types.Vpc{}, fault.New(fault.Gone, "VPC %s does not exist", id)
	}
	return o.Vpcs[0], nil
}

// setVPCIPv6 adds or removes the IPv6 range. It reads the VPC first, so that a second attempt does
// not add a second range.
func setVPCIPv6(ctx context.Context, c *Client, have, want *VPC) error {
	d, err := describeVPC(ctx, c, have.ID)
	if err != nil {
		return err
	}
	id, cidr, exists := ipv6Of(d)
	have.IPv6CIDR = cidr
	switch {
	case !want.AmazonIPv6 && exists:
		have.IPv6CIDR = ""
		_, err = c.EC2.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: &id})
		return err
	case want.AmazonIPv6 && cidr == "":
		if !exists {
			_, err = c.EC2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{
				VpcId: &have.ID, AmazonProvidedIpv6CidrBlock: aws.Bool(true)})
		}
		if err != nil {
			return err
		}
		return fault.New(fault.NotYet, "VPC %s has no IPv6 range yet", have.ID)
	}
	return nil
}

func setVPCDNSSupport(ctx context.Context, c *Client, have, want *VPC) error {
	_, err := c.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{
		VpcId: &have.ID, EnableDnsSupport: &ec2types.AttributeBooleanValue{Value: &want.DNSSupport}})
	return err
}

func setVPCDNSHostnames(ctx context.Context, c *Client, have, want *VPC) error {
	_, err := c.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{
		VpcId: &have.ID, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: &want.DNSHostnames}})
	return err
}

func deleteVPC(ctx context.Context, c *Client, v *VPC) error {
	_, err := c.EC2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &v.ID})
	if fault.Is(err, fault.Conflict) {
		return explainBlockedVPC(ctx, c, v, err)
	}
	if err != nil {
		return fault.IgnoreGone(fmt.Errorf("delete VPC %s: %w", v.ID, err))
	}
	return nil
}

package kinds

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// VPCCIDR is an additional IPv4 range of a VPC.
type VPCCIDR struct {
	VPC  resource.Value `res:"replace" tf:"vpc_id"`
	CIDR string         `res:"replace" tf:"cidr_block"`

	ID string `res:"out,id" out:"id"`
}

// VPCCIDRs is the kind of VPCCIDR.
var VPCCIDRs = resource.Kind[VPCCIDR, *Client]{
	Name:   "aws_vpc_ipv4_cidr_block_association",
	API:    apiEC2,
	Phase:  resource.Network,
	Tasks:  []string{"VPCCIDRBlock"},
	Key:    func(v *VPCCIDR) string { return v.CIDR },
	List:   listVPCCIDRs,
	Create: createVPCCIDR,
	Ready:  waitForVPCCIDR,
	Delete: func(ctx context.Context, c *Client, v *VPCCIDR) error {
		_, err := c.EC2.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: &v.ID})
		return fault.IgnoreGone(err)
	},
}

// listVPCCIDRs lists the wanted ranges. It is not known who added
// others, and they are deleted with their VPC.
func listVPCCIDRs(ctx context.Context, c *Client, s resource.Scope) ([]*VPCCIDR, error) {
	if len(s.Names) == 0 {
		return nil, nil
	}
	list, err := vpcDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	var out []*VPCCIDR
	for _, d := range list {
		for _, a := range d.CidrBlockAssociationSet {
			if cidr := aws.ToString(a.CidrBlock); slices.Contains(s.Names, cidr) && !isDisassociated(a.CidrBlockState) {
				out = append(out, &VPCCIDR{VPC: text(d.VpcId), CIDR: cidr, ID: aws.ToString(a.AssociationId)})
			}
		}
	}
	return out, nil
}

func isDisassociated(s *ec2types.VpcCidrBlockState) bool {
	return s != nil && s.State != ec2types.VpcCidrBlockStateCodeAssociated && s.State != ec2types.VpcCidrBlockStateCodeAssociating
}

func createVPCCIDR(ctx context.Context, c *Client, v *VPCCIDR) error {
	o, err := c.EC2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: aws.String(v.VPC.Text()), CidrBlock: &v.CIDR})
	if err == nil && o.CidrBlockAssociation != nil {
		v.ID = aws.ToString(o.CidrBlockAssociation.AssociationId)
	}
	return err
}

// waitForVPCCIDR waits until subnets can be created in the range.
func waitForVPCCIDR(ctx context.Context, c *Client, v *VPCCIDR) error {
	d, err := describeVPC(ctx, c, v.VPC.Text())
	if err != nil {
		return retryIfGone(err)
	}
	for _, a := range d.CidrBlockAssociationSet {
		if aws.ToString(a.AssociationId) == v.ID && a.CidrBlockState != nil {
			switch a.CidrBlockState.State {
			case ec2types.VpcCidrBlockStateCodeAssociated:
				return nil
			case ec2types.VpcCidrBlockStateCodeFailed, ec2types.VpcCidrBlockStateCodeFailing:
				return fault.New(fault.Permanent, "add %s to VPC %s: %s", v.CIDR, v.VPC.Text(), aws.ToString(a.CidrBlockState.StatusMessage))
			}
		}
	}
	return fault.New(fault.NotYet, "VPC %s does not have the range %s yet", v.VPC.Text(), v.CIDR)
}

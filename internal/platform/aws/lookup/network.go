package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

func newFilters(filter string, values ...string) []types.Filter {
	return []types.Filter{{Name: &filter, Values: values}}
}

// vpc looks up the shared VPC and its gateways.
func (a *resolver) vpc(ctx context.Context) error {
	id := a.query.Network.Name
	o, err := a.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: newFilters("vpc-id", id)})
	if err != nil {
		return fmt.Errorf("describe VPC %s: %w", id, err)
	}
	if len(o.Vpcs) == 0 {
		return nil
	}
	v := vpcRanges(o.Vpcs[0])
	internet, err := a.EC2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: newFilters("attachment.vpc-id", id)})
	if err != nil {
		return fmt.Errorf("find the internet gateway of VPC %s: %w", id, err)
	}
	for _, g := range internet.InternetGateways {
		v.InternetGateway = aws.ToString(g.InternetGatewayId)
	}
	p := ec2.NewDescribeEgressOnlyInternetGatewaysPaginator(a.EC2, &ec2.DescribeEgressOnlyInternetGatewaysInput{})
	for p.HasMorePages() { // the API cannot filter by VPC
		page, err := p.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("find the egress-only gateway of VPC %s: %w", id, err)
		}
		for _, g := range page.EgressOnlyInternetGateways {
			if slices.ContainsFunc(g.Attachments, func(t types.InternetGatewayAttachment) bool { return aws.ToString(t.VpcId) == id }) {
				v.EgressOnlyGateway = aws.ToString(g.EgressOnlyInternetGatewayId)
			}
		}
	}
	a.facts.Networks = map[string]facts.Network{id: v}
	return nil
}

// vpcRanges returns a VPC's ranges, the primary one first.
func vpcRanges(d types.Vpc) facts.Network {
	v := facts.Network{CIDRs: []string{aws.ToString(d.CidrBlock)}}
	for _, r := range d.CidrBlockAssociationSet {
		if cidr := aws.ToString(r.CidrBlock); cidr != v.CIDRs[0] && r.CidrBlockState != nil && r.CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			v.CIDRs = append(v.CIDRs, cidr)
		}
	}
	for _, r := range d.Ipv6CidrBlockAssociationSet {
		if r.Ipv6CidrBlockState != nil && r.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			v.IPv6CIDRs = append(v.IPv6CIDRs, aws.ToString(r.Ipv6CidrBlock))
		}
	}
	return v
}

func (a *resolver) subnets(ctx context.Context) error {
	found := map[string]facts.Subnet{}
	for some := range slices.Chunk(asks.Names(a.query.Subnets), maxTypes) {
		o, err := a.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: newFilters("subnet-id", some...)})
		if err != nil {
			return fmt.Errorf("describe the shared subnets: %w", err)
		}
		for _, d := range o.Subnets {
			s := facts.Subnet{Network: aws.ToString(d.VpcId), CIDR: aws.ToString(d.CidrBlock), Zone: aws.ToString(d.AvailabilityZone)}
			for _, r := range d.Ipv6CidrBlockAssociationSet {
				if r.Ipv6CidrBlockState != nil && r.Ipv6CidrBlockState.State == types.SubnetCidrBlockStateCodeAssociated {
					s.IPv6CIDR = aws.ToString(r.Ipv6CidrBlock)
				}
			}
			found[aws.ToString(d.SubnetId)] = s
		}
	}
	a.facts.Subnets = found
	return nil
}

func (a *resolver) addresses(ctx context.Context) error {
	o, err := a.EC2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: newFilters("public-ip", asks.Names(a.query.Addresses)...)})
	if err != nil {
		return fmt.Errorf("find the shared elastic IP addresses: %w", err)
	}
	a.own.ElasticIPs = map[string]string{}
	for _, d := range o.Addresses {
		a.own.ElasticIPs[aws.ToString(d.PublicIp)] = aws.ToString(d.AllocationId)
	}
	return nil
}

// profiles looks up each instance profile, because the API has no call for several.
func (a *resolver) profiles(ctx context.Context) error {
	found := map[string]string{}
	for _, text := range asks.Names(a.query.Profiles) {
		name := text[strings.LastIndex(text, "/")+1:]
		o, err := a.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		if fault.Is(err, fault.Gone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find the role of instance profile %s: %w", name, err)
		}
		for _, r := range o.InstanceProfile.Roles { // at most one
			found[text] = aws.ToString(r.RoleName)
		}
	}
	a.own.InstanceProfiles = found
	return nil
}

// buckets looks up the regions of buckets. A bucket that does not exist yet will be in the
// cluster's region.
func (a *resolver) buckets(ctx context.Context) error {
	found := map[string]string{}
	for _, name := range a.query.Buckets {
		key := "bucket/" + name
		if region, ok := past.Recall[string](a.past, key); ok {
			found[name] = region
			continue
		}
		o, err := a.S3.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: &name})
		if fault.Is(err, fault.Gone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find the region of bucket %s: %w", name, err)
		}
		found[name] = string(o.LocationConstraint)
		if found[name] == "" { // S3's name for its first region
			found[name] = "us-east-1"
		}
		past.Remember(a.past, key, found[name])
	}
	a.facts.Buckets = found
	return nil
}

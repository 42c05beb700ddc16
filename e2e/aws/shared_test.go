package aws

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/test/cloudsuite"
)

// shared is a VPC with a subnet.
func shared() []cloudsuite.Shared {
	return []cloudsuite.Shared{{Title: "a VPC and a subnet", Make: func(w *cloudsuite.World) (options, kept []string) {
		vpc, subnet := createNetwork(w)
		return []string{"--networking", "cni", "--network-id", vpc, "--subnets", subnet}, []string{vpc, subnet}
	}}}
}

// createNetwork creates a VPC with an internet gateway and a subnet that do not belong to the cluster.
func createNetwork(w *cloudsuite.World) (vpc, subnet string) {
	w.Helper()
	c, ctx := of(w).api.EC2, w.Context()
	v, err := c.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: new("10.1.0.0/16")})
	if err != nil {
		w.Fatal(err)
	}
	s, err := c.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: new("10.1.1.0/24"), AvailabilityZone: new("us-east-1a")})
	if err != nil {
		w.Fatal(err)
	}
	g, err := c.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := c.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{VpcId: v.Vpc.VpcId, InternetGatewayId: g.InternetGateway.InternetGatewayId}); err != nil {
		w.Fatal(err)
	}
	return *v.Vpc.VpcId, *s.Subnet.SubnetId
}

// createSubnet creates another subnet of a VPC.
func createSubnet(w *cloudsuite.World, vpc, cidr string) string {
	w.Helper()
	s, err := of(w).api.EC2.CreateSubnet(w.Context(), &ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: new("us-east-1a")})
	if err != nil {
		w.Fatal(err)
	}
	return *s.Subnet.SubnetId
}

// subnetTags returns the tags of a subnet.
func subnetTags(w *cloudsuite.World, subnet string) map[string]string {
	w.Helper()
	list, err := of(w).api.EC2.DescribeSubnets(w.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	if err != nil || len(list.Subnets) != 1 {
		w.Fatal(list, err)
	}
	out := map[string]string{}
	for _, t := range list.Subnets[0].Tags {
		out[*t.Key] = *t.Value
	}
	return out
}

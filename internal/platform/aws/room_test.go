package aws_test

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/kinds"
)

func TestRoomIsWhatSubnetsHaveFree(t *testing.T) {
	server := awstest.Moto(t)
	p := aws.Provider(aws.Options{Endpoint: server.URL, Region: server.Region, Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	s, err := p.Connect(t.Context(), platform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client := s.Client.(*kinds.Client)
	vpc, err := client.EC2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: sdk.String("10.1.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	subnet := func(cidr, name, owner string) string {
		t.Helper()
		made, err := client.EC2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: &cidr,
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSubnet, Tags: []ec2types.Tag{
				{Key: sdk.String("Name"), Value: &name}, {Key: sdk.String(kinds.TagOwnerPrefix + cluster), Value: &owner}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return *made.Subnet.SubnetId
	}
	subnet("10.1.0.0/28", "a."+cluster, "owned")
	shared := subnet("10.1.1.0/24", "somebody's", "shared")
	c := &api.Cluster{}
	c.Name = cluster
	c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "a"}, {Name: "b", ID: shared}, {Name: "not-there"}}
	group := func(name string, subnets ...string) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Subnets: subnets}}
		g.Name = name
		return g
	}
	got, err := p.Fleet.Room(t.Context(), s, c, []*api.InstanceGroup{group("small", "a"), group("both", "a", "b"), group("unknown", "a", "not-there")})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := got[0]; r.Group != "small" || r.Machines != 11 || r.Why != "the subnet a has 11 free addresses" { // 16 addresses, minus the 5 that AWS reserves
		t.Errorf("%+v", r)
	}
	if r := got[1]; r.Group != "both" || r.Machines != 11+251 || !strings.Contains(r.Why, "the subnet b has 251") {
		t.Errorf("%+v", r)
	}
}

package lookup

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	r53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// counter counts requests.
type counter struct {
	http.Client
	n atomic.Int32
}

func (c *counter) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.Client.Do(r)
}

func connect(t *testing.T, s *awstest.Server) (awsapi.Clients, *counter) {
	t.Helper()
	count := &counter{}
	c, err := awsapi.Connect(t.Context(), awsapi.Config{Region: s.Region, Endpoint: s.URL, HTTPClient: count,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	return *c, count
}

// must returns the value of a successful call, and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func cluster() (*api.Cluster, []*api.InstanceGroup) {
	c := &api.Cluster{}
	c.Name = "k.example.com"
	c.Spec.Networking.Topology = &api.TopologySpec{DNS: api.DNSNone}
	c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "a", Zone: "us-east-1a"}, {Name: "b", Zone: "us-east-1b"}}
	var groups []*api.InstanceGroup
	for name, machine := range map[string]string{"control-plane": "t3.medium", "nodes": "m5.large,t4g.medium"} {
		g := &api.InstanceGroup{}
		g.Name, g.Spec.Image, g.Spec.MachineType, g.Spec.Subnets = name, "amazon/ubuntu", machine, []string{"a"}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *api.InstanceGroup) int { return strings.Compare(a.Name, b.Name) })
	return c, groups
}

func TestFacts(t *testing.T) {
	server := awstest.Moto(t)
	c, count := connect(t, server)
	ctx := t.Context()
	amis := must(c.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"amazon"}})).Images
	ami := amis[slices.IndexFunc(amis, func(i types.Image) bool { return i.OwnerId != nil && i.Name != nil })]

	t.Run("of a plain cluster cost few requests", func(t *testing.T) {
		spec, groups := cluster()
		for _, g := range groups {
			g.Spec.Image = *ami.OwnerId + "/" + *ami.Name
		}
		spec.Spec.Networking.Topology.DNS = api.DNSPublic
		must(c.Route53.CreateHostedZone(ctx, &route53.CreateHostedZoneInput{Name: aws.String("example.com"), CallerReference: aws.String("1")}))
		must(c.Route53.CreateHostedZone(ctx, &route53.CreateHostedZoneInput{Name: aws.String("ample.com"), CallerReference: aws.String("2")}))
		before := count.n.Load()
		f, err := Facts(ctx, c, nil, ClusterQuery(spec, groups))
		if err != nil {
			t.Fatal(err)
		}
		if n := count.n.Load() - before; n > 8 {
			t.Errorf("%d requests", n)
		}
		a := f.Of("aws")
		if own := ownOf(t, a); own.AccountID != "123456789012" || own.Partition != "aws" || a.Region != "us-east-1" || !slices.Contains(a.Zones, "us-east-1b") {
			t.Errorf("got %+v", a)
		}
		if i, ok := a.Image(groups[0].Spec.Image); !ok || !strings.HasPrefix(i.ID, "ami-") || i.RootDevice == "" || i.Architecture == "" {
			t.Errorf("the image is %+v", i)
		}
		if m := a.MachineTypes["m5.large"]; m.VCPU != 2 || m.MemoryMiB != 8192 || !m.Supports(facts.ArchX86) || !m.OfferedIn([]string{"us-east-1a"}) || m.Interfaces != 3 || m.IPsPerIface != 10 {
			t.Errorf("m5.large is %+v", m)
		}
		if m := a.MachineTypes["t4g.medium"]; !m.Supports(facts.ArchARM) || m.Supports(facts.ArchX86) {
			t.Errorf("t4g.medium is %+v", m)
		}
		if len(a.DNSZones) != 1 || a.DNSZones[0].Name != "example.com" || strings.Contains(a.DNSZones[0].ID, "/") {
			t.Errorf("the zones are %+v", a.DNSZones)
		}
	})
	t.Run("of images in every form", func(t *testing.T) {
		if err := c.SSM.Call(ctx, "PutParameter", awsapi.Fields{"Name": "/my/image", "Value": *ami.ImageId, "Type": "String"}, nil); err != nil {
			t.Fatal(err)
		}
		machine := must(c.EC2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: ami.ImageId, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})).Instances[0]
		own := must(c.EC2.CreateImage(ctx, &ec2.CreateImageInput{InstanceId: machine.InstanceId, Name: aws.String("my-image")}))
		f, err := Facts(ctx, c, nil, Query{Usual: asks.Usual{Images: []asks.Reference{{Name: *ami.ImageId}, {Name: "ssm:/my/image"}, {Name: *ami.OwnerId + "/" + *ami.Name}, {Name: "my-image"}}}})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{*ami.ImageId: *ami.ImageId, "ssm:/my/image": *ami.ImageId, "my-image": *own.ImageId} {
			if got := f.Of("aws").Images[name].ID; got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
	t.Run("of shared things", func(t *testing.T) {
		vpc := must(c.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.7.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)})).Vpc
		must(c.EC2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: vpc.VpcId, CidrBlock: aws.String("10.8.0.0/16")}))
		gateway := must(c.EC2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
		must(c.EC2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: gateway, VpcId: vpc.VpcId}))
		egress := must(c.EC2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: vpc.VpcId})).EgressOnlyInternetGateway
		subnet := must(c.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: vpc.VpcId, CidrBlock: aws.String("10.7.1.0/24"), AvailabilityZone: aws.String("us-east-1b")})).Subnet
		address := must(c.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc}))
		must(c.IAM.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("their-role"), AssumeRolePolicyDocument: aws.String("{}")}))
		must(c.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("theirs")}))
		must(c.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("theirs"), RoleName: aws.String("their-role")}))
		zone := must(c.Route53.CreateHostedZone(ctx, &route53.CreateHostedZoneInput{Name: aws.String("private.example.com"), CallerReference: aws.String("3"),
			VPC: &r53types.VPC{VPCId: vpc.VpcId, VPCRegion: "us-east-1"}, HostedZoneConfig: &r53types.HostedZoneConfig{PrivateZone: true}})).HostedZone
		must(c.S3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("discovery")}))

		const arn = "arn:aws:iam::123456789012:instance-profile/theirs"
		f, err := Facts(ctx, c, nil, Query{Usual: asks.Usual{Network: asks.Reference{Name: *vpc.VpcId}, Subnets: []asks.Reference{{Name: *subnet.SubnetId}}, Hosts: []string{"api.k.private.example.com"}}, Addresses: []asks.Reference{{Name: *address.PublicIp}},
			Profiles: []asks.Reference{{Name: arn}}, Buckets: []string{"discovery", "not-yet"}})
		if err != nil {
			t.Fatal(err)
		}
		got := f.Of("aws")
		if v := got.Networks[*vpc.VpcId]; !slices.Equal(v.CIDRs, []string{"10.7.0.0/16", "10.8.0.0/16"}) || len(v.IPv6CIDRs) != 1 ||
			v.InternetGateway != *gateway || v.EgressOnlyGateway != *egress.EgressOnlyInternetGatewayId {
			t.Errorf("the VPC is %+v", v)
		}
		if d := cmp.Diff(map[string]facts.Subnet{*subnet.SubnetId: {Network: *vpc.VpcId, CIDR: "10.7.1.0/24", Zone: "us-east-1b"}}, got.Subnets); d != "" {
			t.Error(d)
		}
		if own := ownOf(t, got); own.ElasticIPs[*address.PublicIp] != *address.AllocationId || own.InstanceProfiles[arn] != "their-role" {
			t.Errorf("the address and the profile are %v, %v", own.ElasticIPs, own.InstanceProfiles)
		}
		if i := slices.IndexFunc(got.DNSZones, func(z facts.DNSZone) bool { return strings.HasSuffix(*zone.Id, "/"+z.ID) }); i < 0 ||
			!got.DNSZones[i].Private || !slices.Equal(got.DNSZones[i].Networks, []string{*vpc.VpcId}) {
			t.Errorf("the zones are %+v", got.DNSZones)
		}
		if d := cmp.Diff(map[string]string{"discovery": "us-east-1"}, got.Buckets); d != "" {
			t.Error(d)
		}
	})
	t.Run("that do not exist are named with their fields", func(t *testing.T) {
		spec, groups := cluster()
		groups[0].Spec.MachineType, groups[1].Spec.Image = "m5.lagre", "099720109477/no-such-image"
		groups[0].Spec.Image = *ami.ImageId
		groups[1].Spec.IAM = &api.IAMProfileSpec{Profile: aws.String("arn:aws:iam::1:instance-profile/none")}
		spec.Spec.Networking.NetworkID = "vpc-00000000"
		spec.Spec.Networking.Subnets[1].Zone, spec.Spec.Networking.Subnets[1].ID = "us-east-1z", "subnet-00000000"
		spec.Spec.Networking.Subnets[0].PublicIP = "203.0.113.9"
		_, err := Facts(ctx, c, nil, ClusterQuery(spec, groups))
		var list diag.List
		if !errors.As(err, &list) {
			t.Fatalf("got %v", err)
		}
		var got []string
		for _, f := range list {
			got = append(got, f.Object+" "+f.Path+" "+f.Value)
			if f.Message == "" || f.Remedy == "" || f.Rule == "" {
				t.Errorf("%+v says too little", f)
			}
		}
		slices.Sort(got)
		want := []string{
			"Cluster/k.example.com spec.networkID vpc-00000000",
			"Cluster/k.example.com spec.subnets[0].publicIP 203.0.113.9",
			"Cluster/k.example.com spec.subnets[1].id subnet-00000000",
			"Cluster/k.example.com spec.subnets[1].zone us-east-1z",
			"InstanceGroup/control-plane spec.machineType m5.lagre",
			"InstanceGroup/nodes spec.iam.profile arn:aws:iam::1:instance-profile/none",
			"InstanceGroup/nodes spec.image 099720109477/no-such-image",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestATypeThatAZoneDoesNotOfferIsReported(t *testing.T) {
	a := &resolver{query: Query{Usual: asks.Usual{MachineTypes: []asks.Reference{{Name: "m5.large", Object: "InstanceGroup/nodes", Path: "spec.machineType", Zones: []string{"z1", "z2"}}}}},
		facts: &facts.Cloud{MachineTypes: map[string]facts.MachineType{"m5.large": {Zones: []string{"z1", "z3"}}}}}
	const want = `InstanceGroup/nodes: spec.machineType: the machine type is not available in z2, got "m5.large"; choose another type, or subnets in z1, z3`
	if got := a.missingFindings().Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOfSeveralImagesOfANameTheNewestIsMeant(t *testing.T) {
	image := func(id, owner, name, date string) types.Image {
		return types.Image{ImageId: &id, OwnerId: &owner, Name: &name, CreationDate: &date}
	}
	list := []types.Image{image("ami-1", "099720109477", "ubuntu/images/x", "2024"), image("ami-2", "099720109477", "ubuntu/images/x", "2025"),
		image("ami-3", "666", "ubuntu/images/x", "2026"), image("ami-4", "099720109477", "y", "2020")}
	for text, want := range map[string]string{
		"099720109477/ubuntu/images/x": "ami-2", "ubuntu/images/x": "ami-2", "ubuntu/y": "ami-4", "666/ubuntu/images/x": "ami-3", "777/y": "", "ami-1": "ami-1"} {
		w := spec.ParseImage(text)
		got := ""
		if i, ok := chooseImage(w, list, nil); ok {
			got = *i.ImageId
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestNeedsOfGroupsWithoutAType(t *testing.T) {
	c, groups := cluster()
	groups[0].Spec.Role, groups[0].Spec.MachineType = api.RoleNode, ""
	groups[1].Spec.Role, groups[1].Spec.MachineType = api.RoleBastion, ""
	q := ClusterQuery(c, groups)
	if want := []string{"c4.large", "c5.large", "t2.micro", "t3.medium", "t3.micro", "t4g.medium", "t4g.micro"}; !slices.Equal(q.Candidates, want) {
		t.Errorf("the candidates are %v", q.Candidates)
	}
	if len(q.Hosts) != 0 || len(q.MachineTypes) != 0 || len(q.Images) != 2 {
		t.Errorf("got %+v", q)
	}
}

func TestWishes(t *testing.T) {
	q := NewClusterQuery(newcluster.Options{ClusterName: "k.example.com", Zones: []string{"z1"}, ControlPlaneZones: []string{"z2"}, NodeSizes: []string{"a,b"},
		Image: "ami-1", SubnetIDs: []string{"subnet-1"}, NetworkID: "vpc-1", DNSZone: "example.com"}, newcluster.World{})
	got := fmt.Sprint(q.Zones, q.MachineTypes, q.Images, q.Subnets, q.Network, q.Hosts, q.DNSZone)
	const want = "[{z1  option:Zones []} {z2  option:ControlPlaneZones []}] [{a  option:NodeSizes []} {b  option:NodeSizes []}] [{ami-1  option:Image []}] " +
		"[{subnet-1  option:SubnetIDs []}] {vpc-1  option:NetworkID []} [k.example.com]example.com"
	if got != want {
		t.Errorf("got %s", got)
	}
	if q := NewClusterQuery(newcluster.Options{ClusterName: "k", DNSType: "none"}, newcluster.World{}); len(q.Hosts) != 0 || len(q.Candidates) == 0 {
		t.Errorf("got %+v", q)
	}
}

// ownOf returns the facts that exist only on AWS.
func ownOf(t *testing.T, c *facts.Cloud) spec.Facts {
	t.Helper()
	own, err := facts.OwnAs[spec.Facts](c)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

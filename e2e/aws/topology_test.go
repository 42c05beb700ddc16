package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	r53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/clitest"
)

// api is a client of the account that bypasses the proxy.
func (w *world) api() *awsapi.Clients {
	w.Helper()
	c, err := awsapi.Connect(w.Context(), awsapi.Config{Region: region, Endpoint: w.server.URL, Credentials: w.server.AWS().Credentials})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// runLifecycle applies a cluster, checks that a second preview is empty, and deletes it
// without leftovers.
func (w *world) runLifecycle(before []string, create ...string) {
	w.Helper()
	w.Must(append([]string{"create", "cluster", "--cloud", "aws", "--image", image, "--bastion-image", image, "--ssh-public-key", w.Key(), name}, create...)...)
	w.Must("update", "cluster", name, "--yes")
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes need to be applied") {
		w.Errorf("a second preview has changes:\n%s", r.Out)
	}
	w.Must("delete", "cluster", name, "--yes")
	if left := clitest.Difference(w.inventory(), before); len(left) > 0 {
		w.Errorf("a deleted cluster leaves %s", strings.Join(left, "\n"))
	}
	if gone := clitest.Difference(before, w.inventory()); len(gone) > 0 {
		w.Errorf("the deletion took what is not the cluster's: %s", strings.Join(gone, "\n"))
	}
	if left := w.objects(); len(left) > 0 {
		w.Errorf("a deleted cluster leaves in the store %s", strings.Join(left, "\n"))
	}
}

// zone creates a hosted zone and returns a function that lists its records.
func (w *world) zone(in *route53.CreateHostedZoneInput) func() []string {
	w.Helper()
	c := w.api()
	out, err := c.Route53.CreateHostedZone(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	return func() []string {
		list, err := c.Route53.ListResourceRecordSets(w.Context(), &route53.ListResourceRecordSetsInput{HostedZoneId: out.HostedZone.Id})
		if err != nil {
			w.Fatal(err)
		}
		var names []string
		for _, r := range list.ResourceRecordSets {
			if r.Type != r53types.RRTypeNs && r.Type != r53types.RRTypeSoa {
				names = append(names, *r.Name+" "+string(r.Type))
			}
		}
		return names
	}
}

func TestTopologies(t *testing.T) {
	server := awstest.Moto(t)
	for title, create := range map[string][]string{
		"public, DNS through a name": {"--zones", "us-east-1a", "--networking", "cni", "--dns", "public", "--dns-zone", "example.com"},
		"private with a bastion":     {"--zones", "us-east-1a,us-east-1b,us-east-1c", "--control-plane-count", "3", "--topology", "private", "--bastion", "--networking", "calico", "--dns", "public", "--dns-zone", "example.com"},
		"private, DNS private":       {"--zones", "us-east-1a", "--topology", "private", "--networking", "cilium", "--dns", "private", "--dns-zone", "example.com"},
		"internal load balancer":     {"--zones", "us-east-1a,us-east-1b", "--topology", "private", "--networking", "kindnet", "--api-loadbalancer-type", "internal"},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, server)
			public := w.zone(&route53.CreateHostedZoneInput{Name: new("example.com"), CallerReference: new("1")})
			private := w.zone(&route53.CreateHostedZoneInput{Name: new("example.com"), CallerReference: new("2"),
				HostedZoneConfig: &r53types.HostedZoneConfig{PrivateZone: true},
				VPC:              &r53types.VPC{VPCId: new(w.defaultVPC()), VPCRegion: r53types.VPCRegion(region)}})
			w.runLifecycle(w.inventory(), create...)
			if left := append(public(), private()...); len(left) > 0 {
				t.Errorf("a deleted cluster leaves the records %v", left)
			}
		})
	}
}

func (w *world) defaultVPC() string {
	w.Helper()
	out, err := w.api().EC2.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{})
	if err != nil || len(out.Vpcs) == 0 {
		w.Fatal("the account has no VPC", err)
	}
	return *out.Vpcs[0].VpcId
}

// network creates a VPC with an internet gateway and a subnet that do not belong to the cluster.
func (w *world) network() (vpc, subnet string) {
	w.Helper()
	c, ctx := w.api().EC2, w.Context()
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

// subnet creates another subnet of a VPC.
func (w *world) subnet(vpc, cidr string) string {
	w.Helper()
	s, err := w.api().EC2.CreateSubnet(w.Context(), &ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: new("us-east-1a")})
	if err != nil {
		w.Fatal(err)
	}
	return *s.Subnet.SubnetId
}

// tags returns the tags of a subnet.
func (w *world) tags(subnet string) map[string]string {
	w.Helper()
	list, err := w.api().EC2.DescribeSubnets(w.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	if err != nil || len(list.Subnets) != 1 {
		w.Fatal(list, err)
	}
	out := map[string]string{}
	for _, t := range list.Subnets[0].Tags {
		out[*t.Key] = *t.Value
	}
	return out
}

func TestSharedNetworkIsKept(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	vpc, subnet := w.network()
	before := w.inventory()
	w.Must("create", "cluster", "--cloud", "aws", "--zones", "us-east-1a", "--networking", "cni", "--image", image,
		"--network-id", vpc, "--subnets", subnet, "--ssh-public-key", w.Key(), name)
	w.Must("update", "cluster", name, "--yes")
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes need to be applied") {
		t.Errorf("a second preview has changes:\n%s", r.Out)
	}
	r := w.Must("delete", "cluster", name)
	_, kept, found := strings.Cut(r.Out, "Kept, because it is shared")
	if !found || !strings.Contains(kept, vpc) || !strings.Contains(kept, subnet) {
		t.Errorf("the preview of the deletion does not say that %s and %s are kept:\n%s", vpc, subnet, r.Out)
	}
	w.Must("delete", "cluster", name, "--yes")
	after := w.inventory()
	if left, gone := clitest.Difference(after, before), clitest.Difference(before, after); len(left)+len(gone) > 0 {
		t.Errorf("the deletion leaves %v and took %v", left, gone)
	}
}

func TestBlockedDeletionNamesTheBlocker(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.Must("create", "cluster", "--cloud", "aws", "--zones", "us-east-1a,us-east-1b,us-east-1c", "--networking", "cni", "--image", image, name)
	w.Must("update", "cluster", name, "--yes")
	c := w.api().EC2
	vpcs, err := c.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{Filters: []ec2types.Filter{{Name: new("tag:KubernetesCluster"), Values: []string{name}}}})
	if err != nil || len(vpcs.Vpcs) != 1 {
		t.Fatal(vpcs, err)
	}
	foreign, err := c.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpcs.Vpcs[0].VpcId, CidrBlock: new("172.20.255.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	r := w.Run("delete", "cluster", name, "--yes", "--wait", "2s")
	if id := *foreign.Subnet.SubnetId; r.Code == 0 || !strings.Contains(r.Err, id) {
		t.Errorf("exit %d, and the error does not name %s:\n%s", r.Code, id, r.Err)
	}
	if _, err := c.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: foreign.Subnet.SubnetId}); err != nil {
		t.Fatal(err)
	}
	w.Must("delete", "cluster", name, "--yes")
}

// Karpenter's machines find the API at the load balancer, like others, if no name is published.
func TestKarpenterWithoutNames(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	args := []string{"--zones", "us-east-1a", "--instance-manager", "karpenter", "--dns", "none", "--discovery-store", "s3://" + bucket + "/discovery"}
	before := w.inventory()
	w.runLifecycle(before, args...)

	w.Must(append([]string{"create", "cluster", "--cloud", "aws", "--image", image, "--ssh-public-key", w.Key(), name}, args...)...)
	w.Must("update", "cluster", name, "--yes")
	balancers, err := w.api().ELB.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{})
	if err != nil || len(balancers.LoadBalancers) != 1 {
		t.Fatalf("%+v, %v", balancers, err)
	}
	read := func(key string) string {
		o, err := w.api().S3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: new(bucket), Key: new(name + key)})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	join := "https://" + *balancers.LoadBalancers[0].DNSName + ":3988/"
	manifest := read("/addons/karpenter.sh/k8s-1.19.yaml")
	for _, text := range []string{read("/igconfig/node/nodes/nodeupscript.sh"), manifest} {
		if !strings.Contains(text, join) {
			t.Errorf("machines do not join at %s:\n%s", join, text)
		}
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(manifest)))
	if channel := read("/addons/bootstrap-channel.yaml"); !strings.Contains(channel, "manifestHash: "+hex.EncodeToString(sum[:])) {
		t.Errorf("the channel has another digest of the manifest than %x:\n%s", sum, channel)
	}
	dir := t.TempDir()
	w.Must("update", "cluster", name, "--target", "terraform", "--out", dir)
	template, err := os.ReadFile(filepath.Join(dir, "data", "aws_s3_object_nodeupscript-nodes_content"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(template), "- https://${aws_lb_api_a_example_com_dns_name}:3988/") {
		t.Errorf("Terraform writes another host:\n%s", template)
	}
	document, err := os.ReadFile(filepath.Join(dir, "kubernetes.tf"))
	if err != nil || !strings.Contains(string(document), "sha256(trimspace(") {
		t.Errorf("Terraform does not compute the digest of the manifest, %v", err)
	}
}

package aws

import (
	"fmt"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/proxy"
)

const (
	bucket = "state-store"
	region = "us-east-1"
	name   = cloudsuite.Name
)

func TestMain(m *testing.M) { cloudsuite.Main(m) }

func TestCloud(t *testing.T) { cloudsuite.Run(t, cloud(t)) }

func BenchmarkRequests(b *testing.B) { cloudsuite.Benchmark(b, cloud(b)) }

// cloud describes AWS, for which moto stands in.
func cloud(t testing.TB) *cloudsuite.Cloud {
	stable, _ := versions.Embedded(versions.Stable)
	images := stable.Images(api.CloudAWS)
	server := awstest.Moto(t, images...)
	zones := []string{region + "a", region + "b", region + "c"}
	nameless := []string{"--dns", "none", "--discovery-store", "s3://" + bucket + "/discovery"} // and an issuer
	topologies := map[string][]string{}
	for title, options := range map[string]string{
		"public, DNS through a name": "--networking cni --dns public --dns-zone example.com",
		"private with a bastion":     "--zones " + strings.Join(zones, ",") + " --control-plane-count 3 --topology private --bastion --networking calico --dns public --dns-zone example.com",
		"private, DNS private":       "--topology private --networking cilium --dns private --dns-zone example.com",
		"internal load balancer":     "--zones " + zones[0] + "," + zones[1] + " --topology private --networking kindnet --api-loadbalancer-type internal",
	} {
		topologies[title] = strings.Fields(options)
	}
	return &cloudsuite.Cloud{
		Platform: awsspec.Platform(), Open: func(t testing.TB) cloudsuite.Account { return open(t, server) },
		Zones: zones, Nameless: nameless,
		Large: []string{"--topology", "private", "--bastion"},
		Group: func(i int) string {
			return fmt.Sprintf("  image: %s\n  machineType: t3.medium\n  subnets:\n  - %s\n", images[0], zones[i%3])
		},
		Places: 3, Turns: 4, WithoutNames: withoutNames,
		Network: "aws_vpc", First: "ec2.CreateVpc",
		Edit: cloudsuite.Edit{Field: "spec.maxSize=3", Shows: "aws_autoscaling_group/nodes-" + zones[0] + "." + name, Hides: "aws_vpc/"},
		Type: "t3.large", NoType: "t9.medium",
		More: []string{"--subnet", zones[0]}, Changed: changed(),
		Topologies: topologies, Shared: shared(),
		Deny: func(w *cloudsuite.World, rights ...string) {
			w.Proxy.Refuse(proxy.Denied, strings.Fields(strings.ReplaceAll(strings.Join(rights, " "), ":", "."))...)
		},
		Reads:     strings.Fields("ec2:DescribeVpcs autoscaling:DescribeAutoScalingGroups iam:ListRolePolicies"),
		Creations: []string{"ec2:CreateVpc ec2:CreateVolume iam:CreateRole", "ec2:CreateSubnet ec2:CreateSecurityGroup", "autoscaling:CreateAutoScalingGroup"},
		Deletions: []string{"autoscaling:DeleteAutoScalingGroup iam:DeleteRolePolicy", "ec2:DeleteVpc"},
		FillUp: func(w *cloudsuite.World, full bool) {
			if w.Proxy.Refuse(proxy.OverQuota); full {
				w.Proxy.Refuse(proxy.OverQuota, "ec2.CreateVpc")
			}
		},
		Quotas: []string{"VPCs per Region", "Service Quotas"},
		Block:  block, Outdate: outdate, Tests: tests(),
		Cannot: map[string]string{
			"one zone more":      "a subnet is in one zone, and the small cluster has one subnet",
			"labels of machines": "moto shows the tags that a launch template was made with",
			"a roll":             "moto fails to start instances from later versions of a launch template",
		},
	}
}

// tests are what only AWS has.
func tests() map[string]func(*cloudsuite.World) {
	return map[string]func(*cloudsuite.World){
		"programs travel with the cluster":            deliverPrograms,
		"Terraform without names needs no second run": renderWithoutNames,
		"Terraform of one shared subnet":              func(w *cloudsuite.World) { renderShared(w, nil, "kubernetes.io/role/elb") },
		"Terraform of shared private and utility subnets": func(w *cloudsuite.World) {
			renderShared(w, []string{"--topology", "private"}, "kubernetes.io/role/internal-elb", "kubernetes.io/role/elb")
		},
		"Karpenter without names":                           runKarpenter,
		"keys of another server reach control planes alone": placeKeys,
		"Terraform knows no keys of another server":         renderWithKeys,
	}
}

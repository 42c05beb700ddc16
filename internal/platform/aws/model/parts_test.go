package model

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
)

func TestPortGaps(t *testing.T) {
	for _, c := range []struct {
		blocked []int
		want    []access.Range
	}{
		{nil, []access.Range{access.Ports(1, 65535)}},
		{[]int{4001, 2380, 2381, 4002}, []access.Range{access.Ports(1, 2379), access.Ports(2382, 4000), access.Ports(4003, 65535)}},
		{[]int{2380, 2381, 4001, 4002, 4004, 2383}, []access.Range{access.Ports(1, 2379), access.Ports(2382, 2382), access.Ports(2384, 4000), access.Ports(4003, 4003), access.Ports(4005, 65535)}},
		{[]int{1, 65535}, []access.Range{access.Ports(2, 65534)}},
	} {
		if got := portGaps(c.blocked); !slices.Equal(got, c.want) {
			t.Errorf("gaps of %v = %v, want %v", c.blocked, got, c.want)
		}
	}
}

func TestRelativeCIDRs(t *testing.T) {
	for _, c := range []struct {
		text        string
		size, index int
		relative    bool
		fails       string
	}{
		{text: "2001:db8::/64"},
		{text: "/64#0", size: 64, relative: true},
		{text: "/64#ff", size: 64, index: 255, relative: true},
		{text: "/60#f", size: 60, index: 15, relative: true},
		{text: "/60#10", relative: true, fails: "not the hexadecimal number of a /60"},
		{text: "/64", relative: true, fails: `"" is not the hexadecimal number of a /64`},
		{text: "/64#x", relative: true, fails: `"x" is not the hexadecimal number`},
		{text: "/80#1", relative: true, fails: "not a range of the form /64#n"},
	} {
		size, index, relative, err := relativeCIDR(c.text)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.text, err, c.fails)
			}
			continue
		}
		if size != c.size || index != c.index || relative != c.relative || err != nil {
			t.Errorf("%s: %d, %d, %t, %v", c.text, size, index, relative, err)
		}
	}
}

func TestVolumeSpeeds(t *testing.T) {
	for _, c := range []struct {
		kind             string
		iops, throughput int
		wantIOPS, want   int
	}{
		{"gp3", 0, 0, 3000, 125}, {"gp3", 100, 250, 3000, 250}, {"gp3", 5000, 0, 5000, 125},
		{"io1", 0, 0, 100, 0}, {"io2", 400, 500, 400, 0}, {"gp2", 300, 125, 0, 0}, {"st1", 0, 0, 0, 0},
	} {
		if iops, throughput := spec.VolumeSpeed(c.kind, c.iops, c.throughput); iops != c.wantIOPS || throughput != c.want {
			t.Errorf("%s of %d and %d: %d and %d, want %d and %d", c.kind, c.iops, c.throughput, iops, throughput, c.wantIOPS, c.want)
		}
	}
}

func TestPlacesThatMachinesRead(t *testing.T) {
	for _, c := range []struct {
		base, keys, secrets string
		want                []bucketFolder
	}{
		{"s3://b/c", "s3://b/c/pki", "s3://b/c/secrets", []bucketFolder{{"b", "c"}}},
		{"s3://b/c/d", "s3://b/c", "s3://other/c", []bucketFolder{{"b", "c"}, {"other", "c"}}},
		{"s3://b/c", "s3://b/cc", "s3://b", []bucketFolder{{"b", ""}}},
		{"file:///tmp/x", "s3://b/pki", "", []bucketFolder{{"b", "pki"}}},
		{"memfs://tests/c", "memfs://tests/c/pki", "memfs://tests/c/secrets", []bucketFolder{{"placeholder-read-bucket", "tests/c"}}},
	} {
		m := &model{spec: &api.ClusterSpec{ConfigStore: api.ConfigStoreSpec{Base: c.base, Keypairs: c.keys, Secrets: c.secrets}}}
		if got := m.storeRoots(); !slices.Equal(got, c.want) {
			t.Errorf("%s, %s, %s: %v, want %v", c.base, c.keys, c.secrets, got, c.want)
		}
	}
}

func TestPoliciesHoldOneTextOrAList(t *testing.T) {
	m := &model{name: "c", account: spec.Facts{Partition: "aws"}}
	if text, err := m.policy(nil); text != "" || err != nil {
		t.Errorf("nothing granted: %q, %v", text, err)
	}
	got, err := m.policy([]grant{{anyResource: []string{"b:Two", "a:One"}}, {anyResource: []string{"a:One"}, owned: []string{"c:Three"}}})
	want := `{
  "Statement": [
    {
      "Action": [
        "a:One",
        "b:Two"
      ],
      "Effect": "Allow",
      "Resource": "*"
    },
    {
      "Action": "c:Three",
      "Condition": {
        "StringEquals": {
          "aws:ResourceTag/KubernetesCluster": "c"
        }
      },
      "Effect": "Allow",
      "Resource": "*"
    }
  ],
  "Version": "2012-10-17"
}`
	if got != want || err != nil {
		t.Errorf("policy = %s, %v", got, err)
	}
}

func TestWhatCannotBeModelled(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*platform.Model)
		want   string
	}{
		{"another cloud", func(in *platform.Model) { in.Cluster.Spec.CloudProvider = api.CloudProviderSpec{} }, "cluster minimal.example.com is not on AWS"},
		{"no facts", func(in *platform.Model) { in.Facts = nil }, "the facts file has no data about AWS"},
		{"two keys", func(in *platform.Model) { in.SSHKeys = append(in.SSHKeys, testSSHKey) }, "model the SSH key of minimal.example.com: there are 2 SSH public keys"},
		{"an image that was not found", func(in *platform.Model) { in.Facts.Of("aws").Images = nil }, "group cp: the image i is not known"},
		{"a subnet that is not there", func(in *platform.Model) { in.Groups[1].Spec.Subnets = []string{"x"} }, "group nodes: the cluster has no subnet x"},
		{"a group without subnets", func(in *platform.Model) { in.Groups[1].Spec.Subnets = nil }, "group nodes has no subnet"},
		{"a member without a group", func(in *platform.Model) { *in.Cluster.Spec.EtcdClusters[0].EtcdMembers[0].InstanceGroup = "x" },
			`member a of etcd main: the cluster has no instance group "x"`},
		{"a zone that was not found", func(in *platform.Model) { in.Cluster.Spec.DNSZone = "example.org" }, "the account has no public hosted zone example.org"},
		{"a VPC without a gateway", func(in *platform.Model) { in.Cluster.Spec.Networking.NetworkID = "vpc-0" }, "the VPC vpc-0 has no internet gateway"},
		{"no utility subnet", func(in *platform.Model) { in.Cluster.Spec.Networking.Subnets[0].Type = api.SubnetPrivate },
			"zone us-test-1a: there is no Utility subnet"},
		{"an address that is not the account's", func(in *platform.Model) {
			s := in.Cluster.Spec.Networking.Subnets
			s[0].Type, s[0].PublicIP = api.SubnetPrivate, "198.51.100.1"
			in.Cluster.Spec.Networking.Subnets = append(s, api.ClusterSubnetSpec{Name: "u", Zone: "us-test-1a", Type: api.SubnetUtility})
		}, "the address 198.51.100.1 is not an elastic IP of the account"},
		{"a target of nothing known", func(in *platform.Model) {
			in.Cluster.Spec.Networking.Subnets[0].AdditionalRoutes = []api.RouteSpec{{CIDR: "10.0.0.0/8", Target: "sg-1"}}
		}, "subnet us-test-1a: sg-1 cannot be the target of a route"},
		{"a balancer with no place", func(in *platform.Model) {
			in.Cluster.Spec.API.LoadBalancer = &api.LoadBalancerAccessSpec{Type: api.LoadBalancerInternal}
		}, "load balancer of the API: an internal load balancer needs a private subnet"},
		{"policies that are no list", func(in *platform.Model) { in.Cluster.Spec.AdditionalPolicies = map[string]string{"node": "{}"} },
			"role nodes.minimal.example.com: additional policies: read a list of policy statements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := read(t, []byte(strings.ReplaceAll(base, "a.example.com", "minimal.example.com")+groupDocs))
			c.change(&in)
			err := Build(in, &graph.Graph{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// groupDocs are the groups of base as documents.
const groupDocs = `---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: cp}
spec: {role: Master, machineType: m3.medium, image: i, subnets: [us-test-1a]}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec: {role: Node, machineType: t2.medium, image: i, subnets: [us-test-1a]}
`

func TestSubnetsFollowTheirRange(t *testing.T) {
	in := read(t, aCluster().Documents(t, map[string]string{"groups": baseGroups, "cluster": `
additionalNetworkCIDRs: [10.1.0.0/16, 10.2.0.0/16]
subnets:
- {name: us-test-1a, cidr: 172.20.32.0/19, type: Public, zone: us-test-1a}
- {name: more, cidr: 10.2.64.0/19, type: Public, zone: us-test-1a}
`}))
	g := &graph.Graph{}
	if err := Build(in, g); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]resource.Address{
		"us-test-1a.a.example.com": nil,
		"more.a.example.com":       {kinds.VPCCIDRs.At("cidr-10.2.0.0/16")},
	} {
		n, ok := g.Get(kinds.Subnets.At(name))
		if !ok || !slices.Equal(n.After, want) {
			t.Errorf("subnet %s follows %v, want %v", name, n.After, want)
		}
	}
}

package kinds

import (
	"net/netip"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/kindtest"
)

// retagged changes one tag, removes one and adds one.
func retagged(tags map[string]string) {
	tags["Owner"] = "someone"
	tags["Name2"] = "" // a tag may be empty
	delete(tags, "kops.k8s.io/old")
}

// tagged returns an object's initial tags.
func tagged(name string) map[string]string {
	t := OwnedTags(testCluster, name)
	t["Owner"], t["kops.k8s.io/old"] = "nobody", "x"
	return t
}

// TestEC2KindsLive runs the lifecycle of an object of every EC2 kind. moto differs from AWS: it
// ignores tags of new DHCP options, filters of NAT gateways and egress-only gateways, and the
// subnet attributes listed as unseen.
func TestEC2KindsLive(t *testing.T) {
	server := awstest.Moto(t)
	c := connect(t, server)
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", AmazonIPv6: true, Tags: OwnedTags(testCluster, "base")})
	subnet := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "base")})
	table := build(t, c, &RouteTables, RouteTable{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "base")})
	group := build(t, c, &SecurityGroups, SecurityGroup{Name: "masters." + testCluster, Description: "d", VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "masters."+testCluster)})
	gateway := build(t, c, &InternetGateways, InternetGateway{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "base")})
	options := build(t, c, &DHCPOptionSets, DHCPOptions{DomainName: "ec2.internal", Servers: []string{"AmazonProvidedDNS"}, Tags: OwnedTags(testCluster, "base")})
	address := build(t, c, &ElasticIPs, ElasticIP{Domain: "vpc", Tags: OwnedTags(testCluster, "base")})

	t.Run("vpc", func(t *testing.T) {
		kindtest.Run(t, &VPCs, c, kindtest.Life[VPC]{
			Cluster: testCluster,
			Want:    VPC{CIDR: "10.1.0.0/16", DNSHostnames: true, DNSSupport: true, Tags: tagged("v")},
			Changes: []kindtest.Change[VPC]{
				{Name: "ipv6", Do: func(v *VPC) { v.AmazonIPv6 = true }},
				{Name: "no ipv6", Do: func(v *VPC) { v.AmazonIPv6 = false }},
				{Name: "no dns", Do: func(v *VPC) { v.DNSHostnames, v.DNSSupport = false, false }},
				{Name: "tags", Do: func(v *VPC) { retagged(v.Tags) }},
			},
		})
	})
	t.Run("vpc cidr", func(t *testing.T) {
		kindtest.Run(t, &VPCCIDRs, c, kindtest.Life[VPCCIDR]{
			Cluster:   testCluster,
			Want:      VPCCIDR{VPC: lit(vpc.ID), CIDR: "10.9.0.0/16"},
			OnlyNamed: true,
		})
	})
	t.Run("dhcp options", func(t *testing.T) {
		kindtest.Run(t, &DHCPOptionSets, c, kindtest.Life[DHCPOptions]{
			Cluster: testCluster,
			Want:    DHCPOptions{DomainName: "eu-west-1.compute.internal", Servers: []string{"AmazonProvidedDNS", "10.0.0.2"}, Tags: tagged("d")},
			Changes: []kindtest.Change[DHCPOptions]{{Name: "tags", Do: func(d *DHCPOptions) { retagged(d.Tags) }}},
		})
	})
	t.Run("dhcp association", func(t *testing.T) {
		other := build(t, c, &DHCPOptionSets, DHCPOptions{DomainName: "x", Servers: []string{"AmazonProvidedDNS"}, Tags: OwnedTags(testCluster, "other")})
		kindtest.Run(t, &DHCPAssociations, c, kindtest.Life[DHCPAssociation]{
			Cluster: testCluster,
			Want:    DHCPAssociation{VPC: lit(vpc.ID), Options: lit(options.ID)},
			Changes: []kindtest.Change[DHCPAssociation]{{Name: "other options", Do: func(d *DHCPAssociation) { d.Options = lit(other.ID) }}},
		})
	})
	t.Run("internet gateway", func(t *testing.T) {
		other := build(t, c, &VPCs, VPC{CIDR: "10.2.0.0/16", Tags: OwnedTags(testCluster, "gateway")})
		kindtest.Run(t, &InternetGateways, c, kindtest.Life[InternetGateway]{
			Cluster: testCluster,
			Want:    InternetGateway{VPC: lit(vpc.ID), Tags: tagged("g")},
			Changes: []kindtest.Change[InternetGateway]{
				{Name: "other vpc", Do: func(g *InternetGateway) { g.VPC = lit(other.ID) }},
				{Name: "tags", Do: func(g *InternetGateway) { retagged(g.Tags) }},
			},
		})
	})
	t.Run("egress-only gateway", func(t *testing.T) {
		kindtest.Run(t, &EgressOnlyGateways, c, kindtest.Life[EgressOnlyGateway]{
			Cluster: testCluster,
			Want:    EgressOnlyGateway{VPC: lit(vpc.ID), Tags: tagged("e")},
			Changes: []kindtest.Change[EgressOnlyGateway]{{Name: "tags", Do: func(g *EgressOnlyGateway) { retagged(g.Tags) }}},
		})
	})
	t.Run("subnet", func(t *testing.T) {
		kindtest.Run(t, &Subnets, c, kindtest.Life[Subnet]{
			Cluster: testCluster,
			Want: Subnet{VPC: lit(vpc.ID), Zone: "us-east-1b", CIDR: "10.0.1.0/24", AssignIPv6: true, DNS64: true,
				ResourceNameA: true, ResourceNameAAAA: true, HostnameType: "resource-name", Tags: tagged("s")},
			Changes: []kindtest.Change[Subnet]{
				{Name: "ipv6 range", Do: func(s *Subnet) { s.IPv6CIDR = "2400:6500:6677:4500::/64" }},
				{Name: "no ipv6 addresses", Do: func(s *Subnet) { s.AssignIPv6 = false }},
				{Name: "no names", Do: func(s *Subnet) { s.ResourceNameA = false }},
				{Name: "tags", Do: func(s *Subnet) { retagged(s.Tags) }},
			},
			Unseen: map[string]string{
				"DNS64":            "moto forgets it",
				"ResourceNameAAAA": "moto forgets it",
			},
		})
	})
	t.Run("subnet from a part of the vpc's ipv6 range", func(t *testing.T) {
		s := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1b", CIDR: "10.0.2.0/24", IPv6Part: IPv6Part(lit(vpc.IPv6CIDR), 8, 0x1f),
			Tags: OwnedTags(testCluster, "part")})
		got := ""
		for _, o := range observed(t, c, &Subnets, resource.Scope{Cluster: testCluster}) {
			if o.ID == s.ID {
				got = o.IPv6CIDR
			}
		}
		whole, part := netip.MustParsePrefix(vpc.IPv6CIDR), netip.MustParsePrefix(got)
		if part.Bits() != 64 || !whole.Contains(part.Addr()) || part.Addr().As16()[7] != 0x1f {
			t.Errorf("the subnet of %s has the range %s", whole, part)
		}
	})
	t.Run("subnet tags", func(t *testing.T) {
		shared := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1b", CIDR: "10.0.3.0/24", Tags: map[string]string{"Name": "theirs"}})
		kindtest.Run(t, &SubnetTagSets, c, kindtest.Life[SubnetTags]{
			Cluster: testCluster,
			Want: SubnetTags{Subnet: lit(shared.ID), Tags: map[string]string{TagOwnerPrefix + testCluster: Shared,
				"SubnetType": "Public", "kubernetes.io/role/elb": "1"}},
			Changes: []kindtest.Change[SubnetTags]{{Name: "private", Do: func(s *SubnetTags) {
				s.Tags["SubnetType"] = "Private"
				s.Tags["kops.k8s.io/instance-group/nodes"] = "true"
			}}},
		})
		list, err := subnetDescriber.describe(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if *d.SubnetId == shared.ID && tagMap(d.Tags)["Name"] != "theirs" {
				t.Errorf("the shared subnet lost its name: %v", tagMap(d.Tags))
			}
		}
	})
	t.Run("elastic ip", func(t *testing.T) {
		kindtest.Run(t, &ElasticIPs, c, kindtest.Life[ElasticIP]{
			Cluster: testCluster,
			Want:    ElasticIP{Domain: "vpc", Tags: tagged("a")},
			Changes: []kindtest.Change[ElasticIP]{{Name: "tags", Do: func(e *ElasticIP) { retagged(e.Tags) }}},
		})
	})
	t.Run("nat gateway", func(t *testing.T) {
		kindtest.Run(t, &NATGateways, c, kindtest.Life[NATGateway]{
			Cluster: testCluster,
			Want:    NATGateway{Subnet: lit(subnet.ID), Allocation: lit(address.ID), Tags: tagged("n")},
			Changes: []kindtest.Change[NATGateway]{{Name: "tags", Do: func(n *NATGateway) { retagged(n.Tags) }}},
		})
	})
	t.Run("route table", func(t *testing.T) {
		kindtest.Run(t, &RouteTables, c, kindtest.Life[RouteTable]{
			Cluster: testCluster,
			Want:    RouteTable{VPC: lit(vpc.ID), Tags: tagged("r"), SharedNATGateway: "nat-0"},
			Changes: []kindtest.Change[RouteTable]{
				{Name: "tags", Do: func(r *RouteTable) { retagged(r.Tags) }},
				{Name: "shared NAT gateway", Do: func(r *RouteTable) { r.SharedNATGateway = "nat-1" }},
				{Name: "own NAT gateway", Do: func(r *RouteTable) { r.SharedNATGateway = "" }},
			},
		})
	})
	t.Run("route table association", func(t *testing.T) {
		other := build(t, c, &RouteTables, RouteTable{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "other")})
		kindtest.Run(t, &RouteTableAssociations, c, kindtest.Life[RouteTableAssociation]{
			Cluster:    testCluster,
			Want:       RouteTableAssociation{Subnet: lit(subnet.ID), RouteTable: lit(table.ID)},
			Changes:    []kindtest.Change[RouteTableAssociation]{{Name: "other table", Do: func(r *RouteTableAssociation) { r.RouteTable = lit(other.ID) }}},
			Unrepeated: map[string]string{"other table": "EC2 gives the association another identity, which only the answer tells"},
		})
	})
	t.Run("route", func(t *testing.T) {
		nat := build(t, c, &NATGateways, NATGateway{Subnet: lit(subnet.ID), Allocation: lit(build(t, c, &ElasticIPs, ElasticIP{Domain: "vpc",
			Tags: OwnedTags(testCluster, "route")}).ID), Tags: OwnedTags(testCluster, "route")})
		eigw := build(t, c, &EgressOnlyGateways, EgressOnlyGateway{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "route")})
		untested := func(more string) map[string]string {
			out := map[string]string{more: "the other route has it"}
			for _, f := range []string{"TransitGateway", "Peering", "NetworkInterface", "Instance"} {
				out[f] = "needs objects that kops does not make; the same call sets it"
			}
			return out
		}
		kindtest.Run(t, &Routes, c, kindtest.Life[Route]{
			Cluster: testCluster,
			Want:    Route{RouteTable: lit(table.ID), CIDR: "0.0.0.0/0", Gateway: lit(gateway.ID)},
			Changes: []kindtest.Change[Route]{
				{Name: "nat", Do: func(r *Route) { r.Gateway, r.NATGateway = resource.Value{}, lit(nat.ID) }},
				{Name: "recorded", Do: func(r *Route) { r.Recorded = nat.ID }},
				{Name: "not recorded", Do: func(r *Route) { r.Recorded = "" }},
			},
			Untested: untested("EgressOnlyGateway"),
		})
		kindtest.Run(t, &Routes, c, kindtest.Life[Route]{
			Cluster:  testCluster,
			Want:     Route{RouteTable: lit(table.ID), IPv6CIDR: "::/0", Gateway: lit(gateway.ID), Recorded: gateway.ID},
			Changes:  []kindtest.Change[Route]{{Name: "egress only", Do: func(r *Route) { r.Gateway, r.EgressOnlyGateway = resource.Value{}, lit(eigw.ID) }}},
			Untested: untested("NATGateway"),
		})
	})
	t.Run("security group", func(t *testing.T) {
		kindtest.Run(t, &SecurityGroups, c, kindtest.Life[SecurityGroup]{
			Cluster: testCluster,
			Want:    SecurityGroup{Name: "nodes." + testCluster, Description: "Security group for nodes", VPC: lit(vpc.ID), Tags: tagged("nodes." + testCluster)},
			Changes: []kindtest.Change[SecurityGroup]{{Name: "tags", Do: func(g *SecurityGroup) { retagged(g.Tags) }}},
		})
	})
	for name, rule := range map[string]SecurityGroupRule{
		"tcp from a range":    {Type: "ingress", Protocol: "tcp", FromPort: 22, ToPort: 22, CIDRs: []string{"1.2.3.4/32"}},
		"tcp from a v6 range": {Type: "ingress", Protocol: "tcp", FromPort: 443, ToPort: 443, IPv6CIDRs: []string{"::/0"}},
		"tcp from a list":     {Type: "ingress", Protocol: "tcp", FromPort: 443, ToPort: 443, PrefixLists: []string{"pl-44444444"}},
		"udp from a group":    {Type: "ingress", Protocol: "udp", FromPort: 1, ToPort: 65535, Source: lit(group.ID)},
		"all from a group":    {Type: "ingress", Protocol: "-1", Source: lit(group.ID)},
		"ipip from a group":   {Type: "ingress", Protocol: "4", FromPort: 0, ToPort: 65535, Source: lit(group.ID)},
		"icmp from a range":   {Type: "ingress", Protocol: "icmp", FromPort: 3, ToPort: 4, CIDRs: []string{"0.0.0.0/0"}},
		"icmpv6 from a range": {Type: "ingress", Protocol: "icmpv6", FromPort: -1, ToPort: -1, IPv6CIDRs: []string{"::/0"}},
		"all to a range":      {Type: "egress", Protocol: "-1", CIDRs: []string{"10.0.0.0/8"}},
		"tcp to a v6 range":   {Type: "egress", Protocol: "tcp", FromPort: 443, ToPort: 443, IPv6CIDRs: []string{"2001:db8::/32"}},
	} {
		t.Run("rule "+name, func(t *testing.T) {
			rule.Group, rule.Tags = lit(group.ID), tagged(name)
			kindtest.Run(t, &SecurityGroupRules, c, kindtest.Life[SecurityGroupRule]{
				Cluster: testCluster, Want: rule,
				Changes: []kindtest.Change[SecurityGroupRule]{{Name: "tags", Do: func(r *SecurityGroupRule) { retagged(r.Tags) }}},
			})
		})
	}
	t.Run("volume", func(t *testing.T) {
		tags := tagged("a.etcd-main." + testCluster)
		tags["k8s.io/etcd/main"] = "a/a"
		kindtest.Run(t, &Volumes, c, kindtest.Life[Volume]{
			Cluster: testCluster,
			Want:    Volume{Zone: "us-east-1a", Encrypted: true, SizeGiB: 20, Type: "gp3", IOPS: 3000, Throughput: 125, Tags: tags},
			Changes: []kindtest.Change[Volume]{
				{Name: "larger", Do: func(v *Volume) { v.SizeGiB = 40 }},
				{Name: "faster", Do: func(v *Volume) { v.IOPS, v.Throughput = 4000, 250 }},
				{Name: "other type", Do: func(v *Volume) { v.Type, v.IOPS, v.Throughput = "gp2", 0, 0 }},
				{Name: "tags", Do: func(v *Volume) { retagged(v.Tags) }},
			},
		})
	})
	t.Run("key pair", func(t *testing.T) {
		kindtest.Run(t, &KeyPairs, c, kindtest.Life[KeyPair]{
			Cluster: testCluster,
			Want: KeyPair{Name: "kubernetes." + testCluster + "-c4:a6", Tags: tagged(testCluster),
				PublicKey: resource.Text(lit("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example.com"))},
			Changes: []kindtest.Change[KeyPair]{{Name: "tags", Do: func(k *KeyPair) { retagged(k.Tags) }}},
		})
	})
	t.Run("launch template", func(t *testing.T) {
		kindtest.Run(t, &LaunchTemplates, c, launchTemplateLife(group.ID))
	})
}

func launchTemplateLife(group string) kindtest.Life[LaunchTemplate] {
	return kindtest.Life[LaunchTemplate]{
		Cluster: testCluster,
		Want: LaunchTemplate{
			Name: "nodes." + testCluster, ImageID: "ami-12345678", InstanceType: "t3.medium", KeyName: lit("key"),
			BlockDevices: []BlockDevice{
				{Device: "/dev/xvda", EBS: EBS{DeleteOnTermination: true, Encrypted: true, IOPS: 3000, Throughput: 125, SizeGiB: 64, Type: "gp3"}},
				{Device: "/dev/sdc", Virtual: "ephemeral0"},
			},
			Profile:           InstanceProfileRef{Name: lit("nodes." + testCluster)},
			Metadata:          MetadataOptions{Endpoint: "enabled", IPv6: "disabled", HopLimit: 1, Tokens: "required"},
			NetworkInterfaces: []NetworkInterface{{PublicIP: true, DeleteOnTermination: true, SecurityGroups: []resource.Value{lit(group)}}},
			TagSpecifications: []TagSpecification{{Resource: "instance", Tags: tagged("nodes")}, {Resource: "volume", Tags: tagged("nodes")}},
			UserData:          resource.Text(lit("#!/bin/sh\necho 'one & two'\n")),
			Tags:              tagged("nodes." + testCluster),
		},
		Changes: []kindtest.Change[LaunchTemplate]{
			{Name: "disk", Do: func(t *LaunchTemplate) { t.BlockDevices[0].EBS.SizeGiB = 128 }},
			{Name: "credits", Do: func(t *LaunchTemplate) { t.Credits.CPU = "standard" }},
			{Name: "profile", Do: func(t *LaunchTemplate) {
				t.Profile = InstanceProfileRef{ARN: lit("arn:aws:iam::123456789012:instance-profile/p")}
			}},
			{Name: "image and type", Do: func(t *LaunchTemplate) { t.ImageID, t.InstanceType = "ami-2", "m5.large" }},
			{Name: "spot", Do: func(t *LaunchTemplate) {
				t.Market = MarketOptions{Type: "spot", Spot: SpotOptions{BlockDurationMinutes: 60, Interruption: "stop", MaxPrice: "0.1"}}
			}},
			{Name: "optimized for volumes", Do: func(t *LaunchTemplate) { t.EBSOptimized = true }},
			{Name: "no key", Do: func(t *LaunchTemplate) { t.KeyName = resource.Value{} }},
			{Name: "metadata", Do: func(t *LaunchTemplate) {
				t.Metadata.HopLimit, t.Metadata.Tokens, t.Metadata.InstanceTags = 3, "optional", "enabled"
			}},
			{Name: "monitoring", Do: func(t *LaunchTemplate) { t.Monitoring.Enabled = true }},
			{Name: "interfaces", Do: func(t *LaunchTemplate) {
				t.NetworkInterfaces[0].PublicIP, t.NetworkInterfaces[0].IPv6Addresses = false, 1
			}},
			{Name: "placement", Do: func(t *LaunchTemplate) { t.Placement.Tenancy = "dedicated" }},
			{Name: "machine tags", Do: func(t *LaunchTemplate) { retagged(t.TagSpecifications[0].Tags) }},
			{Name: "user data", Do: func(t *LaunchTemplate) { t.UserData = resource.Text(lit("#!/bin/sh\nexit 1\n")) }},
			{Name: "tags", Do: func(t *LaunchTemplate) { retagged(t.Tags) }},
		},
		Unseen: map[string]string{"Tags": "moto shows the tags that the template was made with"},
	}
}

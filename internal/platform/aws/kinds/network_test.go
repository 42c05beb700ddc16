package kinds

import (
	"context"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/enginetest"
)

// ec2Engine is the real engine with a server, for the EC2 kinds.
func ec2Engine(t *testing.T, c *Client) *enginetest.Engine {
	e := &enginetest.Engine{TB: t, Client: func() any { return c }, Snapshot: func() any { return c.Snapshot() },
		Clock: exec.Clock{Now: time.Now, Sleep: pause, Jitter: func() float64 { return 0 }}}
	for _, k := range All() {
		if k.KindAPI() == apiEC2 {
			e.Kinds = append(e.Kinds, k)
		}
	}
	return e
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(min(d, 20*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changes lists the steps that change something.
func changes(p *plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Op != plan.Keep {
			out = append(out, string(s.Op)+" "+s.Address.String())
		}
	}
	return out
}

// testNetwork returns a cluster's network with a private subnet, two groups that refer to each
// other, and a template.
func testNetwork(t *testing.T, image string) *graph.Graph {
	t.Helper()
	tags := func(name string) map[string]string { return OwnedTags(testCluster, name) }
	masters, nodes := "masters."+testCluster, "nodes."+testCluster
	vpc := VPCs.New(testCluster, VPC{CIDR: "10.0.0.0/16", AmazonIPv6: true, DNSHostnames: true, DNSSupport: true, Tags: tags(testCluster)})
	extra := VPCCIDRs.New("10.1.0.0/16", VPCCIDR{VPC: vpc.Out("id"), CIDR: "10.1.0.0/16"})
	options := DHCPOptionSets.New(testCluster, DHCPOptions{DomainName: "ec2.internal", Servers: []string{"AmazonProvidedDNS"}, Tags: tags(testCluster)})
	association := DHCPAssociations.New(testCluster, DHCPAssociation{VPC: vpc.Out("id"), Options: options.Out("id")})
	igw := InternetGateways.New(testCluster, InternetGateway{VPC: vpc.Out("id"), Tags: tags(testCluster)})
	utility := Subnets.New("utility", Subnet{VPC: vpc.Out("id"), Zone: "us-east-1a", CIDR: "10.0.0.0/24", ResourceNameA: true, HostnameType: "resource-name", Tags: tags("utility")})
	private := Subnets.New("private", Subnet{VPC: vpc.Out("id"), Zone: "us-east-1a", CIDR: "10.0.1.0/24", IPv6Part: IPv6Part(vpc.Out("cidr6"), 8, 1), AssignIPv6: true, Tags: tags("private")})
	eip := ElasticIPs.New("nat", ElasticIP{Domain: "vpc", Tags: tags("nat")})
	nat := NATGateways.New("nat", NATGateway{Allocation: eip.Out("id"), Subnet: utility.Out("id"), Tags: tags("nat")})
	public, inside := RouteTables.New("public", RouteTable{VPC: vpc.Out("id"), Tags: tags("public")}), RouteTables.New("inside", RouteTable{VPC: vpc.Out("id"), Tags: tags("inside")})
	groups := []resource.Node{}
	for _, n := range []string{masters, nodes} {
		groups = append(groups, SecurityGroups.New(n, SecurityGroup{Name: n, Description: "d", VPC: vpc.Out("id"), Tags: tags(n)}))
	}
	rule := func(name string, r SecurityGroupRule) resource.Node {
		r.Tags = tags(name)
		return SecurityGroupRules.New(name, r)
	}
	key := KeyPairs.New("key", KeyPair{Name: "kubernetes." + testCluster + "-c4:a6", Tags: tags("key"),
		PublicKey: resource.Text(lit("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"))})
	var g graph.Graph
	err := g.Add(append([]resource.Node{vpc, extra, options, association, igw, utility, private, eip, nat, public, inside}, append(groups,
		RouteTableAssociations.New("utility", RouteTableAssociation{Subnet: utility.Out("id"), RouteTable: public.Out("id")}),
		RouteTableAssociations.New("private", RouteTableAssociation{Subnet: private.Out("id"), RouteTable: inside.Out("id")}),
		Routes.New("public", Route{RouteTable: public.Out("id"), CIDR: "0.0.0.0/0", Gateway: igw.Out("id")}),
		Routes.New("public6", Route{RouteTable: public.Out("id"), IPv6CIDR: "::/0", Gateway: igw.Out("id")}),
		Routes.New("inside", Route{RouteTable: inside.Out("id"), CIDR: "0.0.0.0/0", NATGateway: nat.Out("id")}),
		rule("out", SecurityGroupRule{Group: groups[0].Out("id"), Type: egress, Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}}),
		rule("out6", SecurityGroupRule{Group: groups[0].Out("id"), Type: egress, Protocol: "-1", IPv6CIDRs: []string{"::/0"}}),
		rule("m2n", SecurityGroupRule{Group: groups[1].Out("id"), Type: ingress, Protocol: "-1", Source: groups[0].Out("id")}),
		rule("n2m", SecurityGroupRule{Group: groups[0].Out("id"), Type: ingress, Protocol: "4", ToPort: 65535, Source: groups[1].Out("id")}),
		rule("pmtu", SecurityGroupRule{Group: groups[0].Out("id"), Type: ingress, Protocol: "icmpv6", FromPort: -1, ToPort: -1, PrefixLists: []string{"pl-44444444"}}),
		Volumes.New("a", Volume{Zone: "us-east-1a", SizeGiB: 20, Type: "gp3", Tags: map[string]string{TagName: "a", TagCluster: testCluster,
			TagOwnerPrefix + testCluster: Owned, "k8s.io/etcd/main": "a/a"}}),
		key,
		LaunchTemplates.New(nodes, LaunchTemplate{Name: nodes, ImageID: image, InstanceType: "t3.medium", KeyName: key.Out("id"), Tags: tags(nodes),
			NetworkInterfaces: []NetworkInterface{{SecurityGroups: []resource.Value{groups[1].Out("id")}}}}),
	)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return &g
}

func TestANetworkIsMadeOnceChangedInPlaceAndDeletedWhole(t *testing.T) {
	c, count := countingClient(t, awstest.Moto(t))
	e := ec2Engine(t, c)
	g := testNetwork(t, "ami-1")
	e.Apply(testCluster, g, false)
	made := count.byAction()
	if got := changes(e.Plan(testCluster, g, false)); len(got) != 0 {
		t.Errorf("after an apply there is still to do: %v", got)
	}
	for action, n := range map[string]int{"CreateVpc": 1, "CreateSubnet": 2, "CreateSecurityGroup": 2, "CreateLaunchTemplate": 1} {
		if made[action] != n {
			t.Errorf("%s was called %d times, not %d", action, made[action], n)
		}
	}
	g = testNetwork(t, "ami-2")
	if got, want := changes(e.Plan(testCluster, g, false)), []string{"modify aws_launch_template/nodes." + testCluster}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	e.Apply(testCluster, g, false)
	if got := changes(e.Plan(testCluster, g, false)); len(got) != 0 {
		t.Errorf("after a change there is still to do: %v", got)
	}
	letIn := func(cidr string) *graph.Graph {
		g := testNetwork(t, "ami-2")
		group := resource.Out(resource.Address{Kind: "aws_security_group", Name: "masters." + testCluster}, "id")
		if err := g.Add(SecurityGroupRules.New("https-"+cidr, SecurityGroupRule{Group: group, Type: ingress, Protocol: "tcp", FromPort: 443, ToPort: 443,
			CIDRs: []string{cidr}, Tags: OwnedTags(testCluster, "https-"+cidr)})); err != nil {
			t.Fatal(err)
		}
		return g
	}
	e.Apply(testCluster, letIn("0.0.0.0/0"), false)
	e.Apply(testCluster, letIn("10.0.0.0/8"), false) // without pruning
	if p := e.Plan(testCluster, letIn("10.0.0.0/8"), false); len(changes(p)) != 0 || len(p.Deferred) != 0 {
		t.Errorf("access from everywhere was not closed: %v, %v", changes(p), p.Deferred)
	}
	e.Apply(testCluster, &graph.Graph{}, true)
	if got := changes(e.Plan(testCluster, &graph.Graph{}, true)); len(got) != 0 {
		t.Errorf("after the deletion there is left: %v", got)
	}
	t.Logf("to make: %v", made)
}

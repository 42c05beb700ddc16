package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awstest"
)

// keys returns the keys of a kind's objects in a scope, sorted.
func keys[T any](t *testing.T, c *Client, k *resource.Kind[T, *Client], s resource.Scope) []string {
	t.Helper()
	var out []string
	for _, o := range observed(t, c, k, s) {
		out = append(out, k.Key(o))
	}
	slices.Sort(out)
	return out
}

// The cluster does not change what others create in its network; what others create for the cluster
// is deleted with it.
func TestScopeDecidesOwnership(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	other := "other." + testCluster
	ours, all := resource.Scope{Cluster: testCluster}, resource.Scope{Cluster: testCluster, All: true}
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "ours")})
	theirs := build(t, c, &VPCs, VPC{CIDR: "10.1.0.0/16", Tags: OwnedTags(other, "theirs")})
	bare := build(t, c, &VPCs, VPC{CIDR: "10.2.0.0/16"})

	t.Run("vpc", func(t *testing.T) {
		s := ours
		s.Adopted = []string{bare.ID, "vpc-00000000000000000"}
		var ids []string
		for _, v := range observed(t, c, &VPCs, s) {
			ids = append(ids, v.ID)
		}
		if want := []string{vpc.ID, bare.ID}; !slices.Equal(ids, want) {
			t.Errorf("got %v, want %v", ids, want)
		}
	})
	t.Run("security group", func(t *testing.T) {
		for name, tags := range map[string]map[string]string{
			"masters." + testCluster: OwnedTags(testCluster, "masters."+testCluster),
			"k8s-elb-a1":             OwnedTags(testCluster, ""), // created by the cloud controller
			"k8s-traffic":            {TagOwnerPrefix + testCluster: Owned},
			"nodes." + other:         OwnedTags(other, "nodes."+other),
		} {
			build(t, c, &SecurityGroups, SecurityGroup{Name: name, Description: "d", VPC: lit(vpc.ID), Tags: tags})
		}
		if got := keys(t, c, &SecurityGroups, ours); !slices.Equal(got, []string{"masters." + testCluster}) {
			t.Errorf("kops' own are %v", got)
		}
		if got := keys(t, c, &SecurityGroups, all); !slices.Equal(got, []string{"k8s-elb-a1", "k8s-traffic", "masters." + testCluster}) {
			t.Errorf("all are %v", got)
		}
	})
	t.Run("volume", func(t *testing.T) {
		etcd := OwnedTags(testCluster, "a.etcd-main")
		etcd[etcdTagPrefix+"main"] = "a/a"
		build(t, c, &Volumes, Volume{Zone: "us-east-1a", SizeGiB: 1, Type: "gp3", Tags: etcd})
		build(t, c, &Volumes, Volume{Zone: "us-east-1a", SizeGiB: 1, Type: "gp3", Tags: OwnedTags(testCluster, "pvc")})
		bare := OwnedTags(testCluster, "")
		delete(bare, TagName)
		bare[claimNamespaceTag], bare[claimNameTag] = "shop", "orders"
		nameless := build(t, c, &Volumes, Volume{Zone: "us-east-1a", SizeGiB: 1, Type: "gp3", Tags: bare})
		if got := keys(t, c, &Volumes, ours); !slices.Equal(got, []string{"a.etcd-main"}) {
			t.Errorf("kops' own are %v", got)
		}
		if got := keys(t, c, &Volumes, all); !slices.Equal(got, []string{"a.etcd-main", "pvc", nameless.ID}) {
			t.Errorf("all are %v", got)
		}
		holds := map[string]string{}
		for _, v := range observed(t, c, &Volumes, all) {
			holds[Volumes.Key(v)] = describeData(v)
		}
		if want := map[string]string{"a.etcd-main": "data of etcd main", "pvc": "", nameless.ID: "data of the claim shop/orders"}; !maps.Equal(holds, want) {
			t.Errorf("they hold %q", holds)
		}
	})
	t.Run("elastic ip adopted by its address", func(t *testing.T) {
		e := build(t, c, &ElasticIPs, ElasticIP{Domain: "vpc"})
		s := ours
		s.Adopted = []string{e.PublicIP}
		if got := observed(t, c, &ElasticIPs, s); len(got) != 1 || got[0].ID != e.ID {
			t.Errorf("got %v", got)
		}
	})
	t.Run("vpc deletion names a foreign blocker", func(t *testing.T) {
		s := build(t, c, &Subnets, Subnet{VPC: lit(theirs.ID), Zone: "us-east-1a", CIDR: "10.1.1.0/24"})
		err := VPCs.Delete(t.Context(), c, theirs)
		if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "subnet "+s.ID) || fault.Remedy(err) == "" {
			t.Errorf("got %v (%s)", err, fault.Of(err))
		}
	})
}

// Routes that users and controllers add to the cluster's tables are ignored.
func TestRoutesOfOthersAreNotListed(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	table := build(t, c, &RouteTables, RouteTable{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "private.z")})
	own := build(t, c, &InternetGateways, InternetGateway{VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "g")})
	foreign := build(t, c, &EgressOnlyGateways, EgressOnlyGateway{VPC: lit(vpc.ID), Tags: map[string]string{"Name": "x"}})
	build(t, c, &Routes, Route{RouteTable: lit(table.ID), CIDR: "0.0.0.0/0", Gateway: lit(own.ID)})
	build(t, c, &Routes, Route{RouteTable: lit(table.ID), CIDR: "1.0.0.0/8", Gateway: lit(own.ID)}) // created by a user
	build(t, c, &Routes, Route{RouteTable: lit(table.ID), IPv6CIDR: "::/0", EgressOnlyGateway: lit(foreign.ID)})

	if got, want := keys(t, c, &Routes, resource.Scope{Cluster: testCluster}), []string{table.ID + " 0.0.0.0/0"}; !slices.Equal(got, want) {
		t.Errorf("without names: got %v, want %v", got, want)
	}
	// As in the observer: the table's reference is not resolved.
	wanted := Route{RouteTable: resource.Out(resource.Address{Kind: "aws_route_table", Name: "private.z"}, "id"), IPv6CIDR: "::/0"}
	got := keys(t, c, &Routes, resource.Scope{Cluster: testCluster, Names: []string{routeKey(&wanted)}})
	if want := []string{table.ID + " 0.0.0.0/0", table.ID + " ::/0"}; !slices.Equal(got, want) {
		t.Errorf("with names: got %v, want %v", got, want)
	}
	got = keys(t, c, &Routes, resource.Scope{Cluster: testCluster, All: true})
	if want := []string{table.ID + " 0.0.0.0/0", table.ID + " 1.0.0.0/8"}; !slices.Equal(got, want) {
		t.Errorf("all: got %v, want %v", got, want)
	}
}

// AWS' default rule in every new group becomes the cluster's; rules that controllers add are
// ignored, and rules added by others that allow addresses are listed as foreign.
func TestRulesOfOthersAreNotListed(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	name := "nodes." + testCluster
	group := build(t, c, &SecurityGroups, SecurityGroup{Name: name, Description: "d", VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, name)})
	shared := build(t, c, &SecurityGroups, SecurityGroup{Name: "theirs", Description: "d", VPC: lit(vpc.ID)})
	out := build(t, c, &SecurityGroupRules, SecurityGroupRule{Group: lit(group.ID), Type: egress, Protocol: "-1", CIDRs: []string{"0.0.0.0/0"},
		Tags: OwnedTags(testCluster, "out")})
	if out.ID == "" {
		t.Error("the rule of the new group has no id")
	}
	ssh := SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 22, ToPort: 22, CIDRs: []string{"0.0.0.0/0"}}
	web := SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 80, ToPort: 80, CIDRs: []string{"0.0.0.0/0"}}
	for _, g := range []*SecurityGroup{group, shared} {
		for _, r := range []SecurityGroupRule{ssh, web} {
			r.Group = lit(g.ID)
			build(t, c, &SecurityGroupRules, r)
		}
	}
	if _, err := c.EC2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group.ID, IpPermissions: []ec2types.IpPermission{{
		IpProtocol: new("tcp"), FromPort: new(int32(30080)), ToPort: new(int32(30080)),
		IpRanges: []ec2types.IpRange{{CidrIp: new("0.0.0.0/0"), Description: new("kubernetes.io/rule/nlb/client=a")}}}}}); err != nil {
		t.Fatal(err)
	}

	key := func(g, rest string) string { return g + " " + rest }
	const outKey, sshKey, webKey = "egress -1 0-0 0.0.0.0/0", "ingress tcp 22-22 0.0.0.0/0", "ingress tcp 80-80 0.0.0.0/0"
	for _, tc := range []struct {
		what  string
		scope resource.Scope
		want  []string
	}{
		{"unnamed", resource.Scope{Cluster: testCluster}, []string{key(group.ID, outKey), key(group.ID, sshKey), "foreign " + key(group.ID, webKey)}},
		{"named as the observer names them", resource.Scope{Cluster: testCluster, Names: []string{key(name, webKey), key(shared.ID+"-masters", webKey)}},
			[]string{key(group.ID, outKey), key(group.ID, sshKey), key(group.ID, webKey), key(shared.ID, webKey)}},
		{"all", resource.Scope{Cluster: testCluster, All: true}, []string{key(group.ID, outKey), key(group.ID, sshKey), key(group.ID, webKey), key(group.ID, "ingress tcp 30080-30080 0.0.0.0/0")}},
	} {
		slices.Sort(tc.want)
		var got []string
		for _, r := range observed(t, c, &SecurityGroupRules, tc.scope) {
			got = append(got, map[bool]string{true: "foreign "}[SecurityGroupRules.Foreign(r)]+ruleKey(r))
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.what, got, tc.want)
		}
	}
}

// Controllers, backups and clusters that share objects add tags to a cluster's objects. These tags
// do not count as differences, and the cluster's updates do not remove them.
func TestTagsOfOthersStay(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	guest := "guest." + testCluster
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	want := &Subnet{VPC: lit(vpc.ID), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "s")}
	subnet := build(t, c, &Subnets, *want)
	asGuest := &SubnetTags{Subnet: lit(subnet.ID), Tags: map[string]string{TagOwnerPrefix + guest: Shared, "kubernetes.io/role/elb": "1"}}
	build(t, c, &SubnetTagSets, *asGuest)
	theirs := Tags{"Backup": "daily", "kops.k8s.io/instance-group/theirs": "true"}
	if err := setEC2Tags(t.Context(), c, subnet.ID, nil, theirs); err != nil {
		t.Fatal(err)
	}
	owner := func() *Subnet { return observed(t, c, &Subnets, resource.Scope{Cluster: testCluster})[0] }
	visitor := func() *SubnetTags {
		return observed(t, c, &SubnetTagSets, resource.Scope{Cluster: guest, Names: []string{subnet.ID}})[0]
	}
	if d := SubnetTagSets.Erase().Schema().Diff(asGuest, visitor()); len(d) > 0 {
		t.Errorf("the guest sees the differences %v", d)
	}
	asGuest.Tags["SubnetType"] = "Public"
	if err := SubnetTagSets.Update[0].Set(t.Context(), c, visitor(), asGuest); err != nil {
		t.Fatal(err)
	}
	want.ID, want.Tags["Team"] = subnet.ID, "blue"
	for _, s := range Subnets.Update {
		if slices.Contains(s.Fields, "Tags") {
			if err := s.Set(t.Context(), c, owner(), want); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := owner().Tags
	for k, v := range map[string]string{TagOwnerPrefix + guest: Shared, "kubernetes.io/role/elb": "1", "SubnetType": "Public", "Backup": "daily", "Team": "blue"} {
		if got[k] != v {
			t.Errorf("the tag %s is %q, not %q", k, got[k], v)
		}
	}
	if v, left := got["kops.k8s.io/instance-group/theirs"]; left {
		t.Errorf("a tag as only kops makes them on its own stayed: %q", v)
	}
	if d := Subnets.Erase().Schema().Diff(want, owner()); len(d) > 0 {
		t.Errorf("the owner sees the differences %v", d)
	}
}

// A deletion removes the cluster's rules from a shared group, where only their tags identify them.
// A rule that existed before remains and loses these tags; other rules are unchanged.
func TestADeletionTakesItsGroupsOutOfSharedOnes(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	group := func(name string, tags map[string]string) resource.Value {
		return lit(build(t, c, &SecurityGroups, SecurityGroup{Name: name, Description: "d", VPC: lit(vpc.ID), Tags: tags}).ID)
	}
	other := "other." + testCluster
	ours, theirs, shared := group("nodes", OwnedTags(testCluster, "nodes")), group("nodes."+other, OwnedTags(other, "nodes."+other)), group("shared", nil)
	rule := func(port int, cluster string, peer resource.Value) SecurityGroupRule {
		return *build(t, c, &SecurityGroupRules, SecurityGroupRule{Group: shared, Type: ingress, Protocol: "tcp", FromPort: port, ToPort: port, Source: peer,
			Tags: OwnedTags(cluster, "r")})
	}
	in := func(port int, ranges string, tags map[string]string) SecurityGroupRule {
		return *build(t, c, &SecurityGroupRules, SecurityGroupRule{Group: shared, Type: ingress, Protocol: "tcp", FromPort: port, ToPort: port, CIDRs: []string{ranges}, Tags: tags})
	}
	made := []string{rule(1, testCluster, ours).ID, rule(3, testCluster, shared).ID, in(22, "203.0.113.7/32", OwnedTags(testCluster, "ssh")).ID}
	stay := []string{rule(2, other, theirs).ID, in(80, "0.0.0.0/0", nil).ID}
	found := in(443, "0.0.0.0/0", map[string]string{"Name": "web"})
	if again := in(443, "0.0.0.0/0", OwnedTags(testCluster, "https")); again.ID != found.ID {
		t.Fatalf("%s is taken for %s", again.ID, found.ID)
	}
	out := build(t, c, &SecurityGroupRules, SecurityGroupRule{Group: shared, Type: egress, Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}, Tags: OwnedTags(testCluster, "out")})
	stay = append(stay, found.ID, out.ID)

	// An update removes what a previous spec added there, and nothing else.
	former := observed(t, c, &SecurityGroupRules, resource.Scope{Cluster: testCluster, Names: []string{shared.Text() + "-nodes ingress tcp 1-1 " + ours.Text()}})
	if ids := idsOf(former, shared); !slices.Equal(ids, sorted(append([]string{found.ID, out.ID}, made...))) {
		t.Errorf("an update sees the rules %v of the shared group", ids)
	}
	all := observed(t, c, &SecurityGroupRules, resource.Scope{Cluster: testCluster, All: true})
	if ids := idsOf(all, shared); !slices.Equal(ids, sorted(append([]string{found.ID, out.ID}, made...))) {
		t.Errorf("a deletion sees the rules %v of the shared group", ids)
	}
	for _, r := range all {
		if r.Group.Text() == shared.Text() {
			if err := SecurityGroupRules.Delete(t.Context(), c, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, err := describeRules(t.Context(), c, "group-id", shared.Text())
	rules, err := convert(left, err, ruleOf)
	if err != nil {
		t.Fatal(err)
	}
	if ids := idsOf(rules, shared); !slices.Equal(ids, sorted(stay)) {
		t.Errorf("the rules %v are left, want %v", ids, stay)
	}
	for _, r := range rules {
		if isOwned(r.Tags, testCluster) || r.Tags[TagCluster] == testCluster || r.Tags[tagFound] != "" {
			t.Errorf("the rule %s has the tags %v of a cluster that is gone", r.ID, r.Tags)
		}
	}
}

// idsOf returns the identifiers of a group's rules, sorted.
func idsOf(rules []*SecurityGroupRule, group resource.Value) (out []string) {
	for _, r := range rules {
		if r.Group.Text() == group.Text() {
			out = append(out, r.ID)
		}
	}
	return sorted(out)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func TestClassicLoadBalancersOfServicesGoWithTheCluster(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	subnet := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "s")})
	group := build(t, c, &SecurityGroups, SecurityGroup{Name: "k8s-elb", Description: "d", VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "")})
	const others = 2*tagBatch + 1 // too many for one call for their tags
	for i := range others + 1 {
		name, cluster := fmt.Sprintf("a%d", i), "other."+testCluster
		if i == others {
			cluster = testCluster
		}
		_, err := c.ClassicELB.CreateLoadBalancer(t.Context(), &classic.CreateLoadBalancerInput{LoadBalancerName: &name, Subnets: []string{subnet.ID}, SecurityGroups: []string{group.ID},
			Listeners: []classictypes.Listener{{Protocol: new("TCP"), LoadBalancerPort: 80, InstancePort: new(int32(30080))}},
			Tags:      []classictypes.Tag{{Key: new(TagOwnerPrefix + cluster), Value: new(Owned)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := resource.Scope{Cluster: testCluster, All: true}
	if got := observed(t, c, &ClassicBalancers, resource.Scope{Cluster: testCluster}); len(got) > 0 {
		t.Errorf("%d are listed although not everything is asked for", len(got))
	}
	got := observed(t, c, &ClassicBalancers, all)
	if len(got) != 1 || !slices.Equal(resource.Texts(got[0].Subnets), []string{subnet.ID}) || !slices.Equal(resource.Texts(got[0].Groups), []string{group.ID}) {
		t.Fatalf("got %+v", got)
	}
	for range 2 {
		if err := ClassicBalancers.Delete(t.Context(), c, got[0]); err != nil {
			t.Error(err)
		}
	}
	if got := observed(t, c, &ClassicBalancers, all); len(got) > 0 {
		t.Errorf("%v is left", got[0].Name)
	}
	_, err := c.ClassicELB.DescribeLoadBalancers(t.Context(), &classic.DescribeLoadBalancersInput{LoadBalancerNames: []string{"gone"}})
	if !fault.Is(err, fault.Gone) {
		t.Errorf("of one that does not exist: %v (%s)", err, fault.Of(err))
	}
}

// Many templates take two requests, even if many others exist.
func TestManyLaunchTemplatesAreListedInTwoRequests(t *testing.T) {
	server := awstest.Moto(t)
	c, count := countingClient(t, server)
	want := map[string]string{}
	for _, cluster := range []string{testCluster, "other." + testCluster} {
		for _, n := range []string{"a", "b", "c", "d"} {
			lt := build(t, c, &LaunchTemplates, LaunchTemplate{Name: n + "." + cluster, ImageID: "ami-" + n, Tags: OwnedTags(cluster, n+"."+cluster)})
			if cluster == testCluster {
				want[lt.ID] = "ami-" + n
			}
		}
	}
	before := count.total()
	got := map[string]string{}
	for _, o := range observed(t, c, &LaunchTemplates, resource.Scope{Cluster: testCluster}) {
		got[o.ID] = o.ImageID
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := count.total() - before; n != 2 {
		t.Errorf("the list took %d requests", n)
	}
}

// Objects that several kinds read are requested once per snapshot.
func TestSnapshotOfEC2CostsFewRequests(t *testing.T) {
	server := awstest.Moto(t)
	c, count := countingClient(t, server)
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	build(t, c, &SecurityGroups, SecurityGroup{Name: "x", Description: "d", VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "x")})
	before := count.total()
	snapshot := c.Snapshot()
	for _, k := range All() {
		if k.KindAPI() != apiEC2 {
			continue
		}
		if _, err := k.Observe(t.Context(), snapshot, resource.Scope{Cluster: testCluster, Names: []string{"10.9.0.0/16"}}); err != nil {
			t.Error(err)
		}
	}
	// One for each of VPC, DHCP options, three types of gateways, subnet, shared subnets, address,
	// route table, group, rule, volume, key pair, template, and one for each of two VPC attributes.
	if n := count.total() - before; n != 16 {
		t.Errorf("the snapshot took %d requests: %v", n, count.byAction())
	}
}

func TestTemplatesOfKarpenterGoOnlyWithTheCluster(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	for name, class := range map[string]string{"nodes." + testCluster: "", "karpenter.k8s.aws/1": "pool"} {
		tags := OwnedTags(testCluster, "nodes."+testCluster)
		if class != "" {
			tags[tagNodeClass] = class
		}
		if _, err := c.EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-1")}, TagSpecifications: tagSpec(ec2types.ResourceTypeLaunchTemplate, tags)}); err != nil {
			t.Fatal(err)
		}
	}
	if list := observed(t, c, &LaunchTemplates, resource.Scope{Cluster: testCluster}); len(list) != 1 || list[0].Name != "nodes."+testCluster {
		t.Errorf("an update sees %d templates", len(list))
	}
	if list := observed(t, c, &LaunchTemplates, resource.Scope{Cluster: testCluster, All: true}); len(list) != 2 {
		t.Errorf("a deletion sees %d templates", len(list))
	}
}

// An interface in use is only deleted if its machine is, too: AWS refuses to delete it before.
func TestInterfacesOfOtherMachinesAreLeftAlone(t *testing.T) {
	c, sent := countingClient(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	subnet := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "s")})
	images, err := c.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{})
	if err != nil || len(images.Images) == 0 {
		t.Fatal("moto has no image", err)
	}
	machine := func(tags map[string]string) *string {
		out, err := c.EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: images.Images[0].ImageId, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			SubnetId: &subnet.ID, TagSpecifications: tagSpec(ec2types.ResourceTypeInstance, tags)})
		if err != nil {
			t.Fatal(err)
		}
		return out.Instances[0].InstanceId
	}
	ours, theirs, users := machine(OwnedTags(testCluster, "ours")), machine(OwnedTags("other."+testCluster, "theirs")), machine(map[string]string{TagName: "mine", TagCluster: testCluster})
	var want []string
	for i, x := range []struct {
		tags map[string]string
		of   *string
		want bool
	}{
		{map[string]string{TagCluster: testCluster}, nil, true},
		{map[string]string{TagCluster: testCluster}, ours, true},
		{OwnedTags(testCluster, "eni"), ours, true},
		{map[string]string{TagCluster: testCluster}, theirs, false},
		{map[string]string{TagCluster: testCluster}, users, false},
		{OwnedTags(testCluster, "eni"), users, false},
	} {
		out, err := c.EC2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet.ID,
			TagSpecifications: tagSpec(ec2types.ResourceTypeNetworkInterface, x.tags)})
		if err != nil {
			t.Fatal(err)
		}
		id := out.NetworkInterface.NetworkInterfaceId
		if x.of != nil {
			if _, err := c.EC2.AttachNetworkInterface(t.Context(), &ec2.AttachNetworkInterfaceInput{DeviceIndex: aws.Int32(int32(i)), InstanceId: x.of, NetworkInterfaceId: id}); err != nil {
				t.Fatal(err)
			}
		}
		if x.want {
			want = append(want, *id)
		}
	}
	all, before := resource.Scope{Cluster: testCluster, All: true}, sent.byAction()["DescribeInstances"]
	snapshot := c.Snapshot()
	slices.Sort(want)
	if got := keys(t, snapshot, &NetworkInterfaces, all); !slices.Equal(got, want) {
		t.Errorf("a deletion sees %q, want %q", got, want)
	}
	observed(t, snapshot, &Instances, all)
	if n := sent.byAction()["DescribeInstances"] - before; n != 1 {
		t.Errorf("machines are listed %d times", n)
	}
}

func TestMachinesAndInterfacesLeftBehindGoWithTheCluster(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	subnet := build(t, c, &Subnets, Subnet{VPC: lit(vpc.ID), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "s")})
	images, err := c.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{})
	if err != nil || len(images.Images) == 0 {
		t.Fatal("moto has no image", err)
	}
	for _, tags := range []map[string]string{OwnedTags(testCluster, "ours"), OwnedTags("other."+testCluster, "theirs")} {
		if _, err := c.EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: images.Images[0].ImageId, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			SubnetId: &subnet.ID, TagSpecifications: tagSpec(ec2types.ResourceTypeInstance, tags)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tags := range []map[string]string{
		OwnedTags(testCluster, "eni"),
		{TagOwnerPrefix + testCluster: Owned}, // as the AWS VPC CNI may set them
		{TagCluster: testCluster},             // as Cilium sets them
		OwnedTags("other."+testCluster, "theirs"), {TagCluster: "other." + testCluster}, {TagName: "nobody's"},
		{TagCluster: testCluster, TagOwnerPrefix + testCluster: Shared},
	} {
		if _, err := c.EC2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet.ID,
			TagSpecifications: tagSpec(ec2types.ResourceTypeNetworkInterface, tags)}); err != nil {
			t.Fatal(err)
		}
	}
	ours, all := resource.Scope{Cluster: testCluster}, resource.Scope{Cluster: testCluster, All: true}
	if n := len(observed(t, c, &Instances, ours)) + len(observed(t, c, &NetworkInterfaces, ours)); n != 0 {
		t.Errorf("%d objects are listed although not everything is asked for", n)
	}
	machines, interfaces := observed(t, c, &Instances, all), observed(t, c, &NetworkInterfaces, all)
	if len(machines) != 1 || len(machines[0].Holds) == 0 || len(interfaces) != 3 {
		t.Fatalf("got %d machines and %d interfaces", len(machines), len(interfaces))
	}
	for range 3 { // the second and third attempts find it shutting down and terminated
		if err := Instances.Delete(t.Context(), c, machines[0]); err != nil && !fault.Is(err, fault.NotYet) {
			t.Error(err)
		}
	}
	for _, i := range interfaces {
		if err := NetworkInterfaces.Delete(t.Context(), c, i); err != nil {
			t.Error(err)
		}
	}
	if n := len(observed(t, c, &Instances, all)) + len(observed(t, c, &NetworkInterfaces, all)); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

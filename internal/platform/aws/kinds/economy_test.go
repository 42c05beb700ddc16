package kinds

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awstest"
)

// The requests for observing what a cluster of one control plane and one group of nodes, with a
// load balancer and without DNS, has outside EC2; and for many groups.
func TestObservingServicesTakesFewRequests(t *testing.T) {
	server := awstest.Moto(t)
	c, sent := countingClient(t, server)
	c.AccountID, c.Partition = "123456789012", "aws"
	c.Past = &hookMap{data: map[string][]byte{}}
	scopes := buildServices(t, c)
	kinds := []resource.Any{IAMRoles.Erase(), IAMRolePolicies.Erase(), IAMAttachments.Erase(), IAMProfiles.Erase(), OIDCProviders.Erase(),
		LoadBalancers.Erase(), TargetGroups.Erase(), Listeners.Erase(), AutoScalingGroups.Erase(), LifecycleHooks.Erase(),
		Queues.Erase(), EventRules.Erase(), EventTargets.Erase(), DNSRecords.Erase(), DNSPlaceholders.Erase(), ZoneAssociations.Erase()}
	look := func(what string, want int) {
		before := sent.byAction()
		snapshot := c.Snapshot()
		for _, k := range kinds {
			names := scopes[k.KindName()]
			found, err := k.Observe(t.Context(), snapshot, resource.Scope{Cluster: testCluster, Names: names})
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != len(names) {
				t.Errorf("%s: %s: %d found, want %d", what, k.KindName(), len(found), len(names))
			}
		}
		n, lines := 0, []string{}
		for action, times := range sent.byAction() {
			if d := times - before[action]; d > 0 {
				n += d
				lines = append(lines, fmt.Sprintf("%3d %s", d, action))
			}
		}
		slices.Sort(lines)
		t.Logf("%s: %d requests", what, n)
		if n > want {
			t.Errorf("%s: %d requests, want at most %d:\n%v", what, n, want, lines)
		}
	}
	look("first look", 31)
	look("hooks remembered", 29)
	template := testTemplate(t, c, "many")
	for i := range 65 {
		g := AutoScalingGroup{Name: fmt.Sprintf("g%02d.%s", i, testCluster), LaunchTemplate: &GroupTemplate{ID: lit(template), Version: lit("1")},
			Subnets: []resource.Value{lit(defaultNetwork(t, c).subnets[0])}, Tags: ownedGroupTags()}
		add(t, c, scopes, &AutoScalingGroups, g)
	}
	look("67 groups", 94)
	look("67 groups, hooks remembered", 29)
}

// A prefetched request is not sent again, whether its response has arrived or is still on its way.
func TestWhatIsAskedAheadIsNotAskedAgain(t *testing.T) {
	c, sent := countingClient(t, awstest.Moto(t))
	c.AccountID, c.Partition = "123456789012", "aws"
	names := buildServices(t, c)
	vpc := build(t, c, &VPCs, VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	names[VPCs.Name] = []string{"v"}
	build(t, c, &SecurityGroups, SecurityGroup{Name: "x", Description: "d", VPC: lit(vpc.ID), Tags: OwnedTags(testCluster, "x")})
	look := func(ask func(snapshot *Client, list func())) map[string]int {
		before, snapshot := sent.byAction(), c.Snapshot()
		ask(snapshot, func() {
			for _, k := range All() {
				if !k.Early() {
					continue
				}
				if _, err := k.Observe(t.Context(), snapshot, resource.Scope{Cluster: testCluster, Names: names[k.KindName()]}); err != nil {
					t.Error(err)
				}
			}
		})
		after := sent.byAction()
		for action, times := range before {
			if after[action] -= times; after[action] == 0 {
				delete(after, action)
			}
		}
		return after
	}
	want := look(func(_ *Client, list func()) { list() })
	if want["DescribeLifecycleHooks"] < 2 || want["DescribeVpcAttribute"] != 2 || want["DescribeSecurityGroupRules"] != 1 {
		t.Errorf("the cluster has too little to tell: %v", want)
	}
	for what, ask := range map[string]func(*Client, func()){
		"before": func(snapshot *Client, list func()) {
			observe.Prefetch(t.Context(), All(), snapshot, testCluster)
			list()
		},
		"while": func(snapshot *Client, list func()) {
			var asking sync.WaitGroup
			asking.Go(func() { observe.Prefetch(t.Context(), All(), snapshot, testCluster) })
			list()
			asking.Wait()
		},
	} {
		if got := look(ask); !maps.Equal(got, want) {
			t.Errorf("asked ahead %s it is observed, it took %v, not %v", what, got, want)
		}
	}
}

// add creates an object and records its key.
func add[T any](t *testing.T, c *Client, keys map[string][]string, k *resource.Kind[T, *Client], want T) *T {
	t.Helper()
	keys[k.Name] = append(keys[k.Name], k.Key(&want))
	return build(t, c, k, want)
}

// buildServices creates the cluster's objects, and returns their keys by kind.
func buildServices(t *testing.T, c *Client) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for _, role := range []string{"masters." + testCluster, "nodes." + testCluster} {
		add(t, c, keys, &IAMRoles, IAMRole{Name: role, AssumeRolePolicy: testTrust, Tags: OwnedTags(testCluster, role)})
		add(t, c, keys, &IAMProfiles, IAMInstanceProfile{Name: role, Role: lit(role), Tags: OwnedTags(testCluster, role)})
	}
	add(t, c, keys, &IAMRolePolicies, IAMRolePolicy{Name: "masters." + testCluster, Role: lit("masters." + testCluster), Policy: testPolicy})
	lb := add(t, c, keys, &LoadBalancers, testLoadBalancer(t, c, "api-k-example-com-abc123"))
	for i, port := range []int{443, 3988} {
		name := fmt.Sprintf("tcp-%d", i)
		tg := testTargetGroup(t, c, name)
		keys[TargetGroups.Name] = append(keys[TargetGroups.Name], name)
		add(t, c, keys, &Listeners, Listener{LoadBalancer: lit(lb.ID), LoadBalancerName: lb.Name, Port: port, Protocol: "TCP",
			DefaultAction: ListenerAction{TargetGroup: lit(tg.ID), Type: "forward"}})
	}
	for _, ig := range []string{"control-plane-a.masters", "nodes-a"} {
		g := add(t, c, keys, &AutoScalingGroups, testGroup(t, c, ig+"."+testCluster))
		add(t, c, keys, &LifecycleHooks, LifecycleHook{Name: ig + "-NTHLifecycleHook", Group: lit(g.ID), DefaultResult: "CONTINUE",
			HeartbeatTimeout: 300, Transition: "autoscaling:EC2_INSTANCE_TERMINATING"})
	}
	q := add(t, c, keys, &Queues, testQueue("k-example-com-nth"))
	for _, rule := range []string{"ASGLifecycle", "SpotInterruption", "InstanceStateChange", "InstanceScheduledChange"} {
		r := add(t, c, keys, &EventRules, testRule(testCluster+"-"+rule))
		add(t, c, keys, &EventTargets, EventTarget{Rule: lit(r.ID), ARN: lit(q.ARN)})
	}
	return keys
}

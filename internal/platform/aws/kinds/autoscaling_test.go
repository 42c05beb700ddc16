package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

// testTemplate creates a launch template with two versions.
func testTemplate(t *testing.T, c *Client, name string) (id string) {
	t.Helper()
	data := &ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeT3Medium, ImageId: new("ami-12c6146b")}
	out, err := c.EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	if err == nil {
		_, err = c.EC2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	}
	if err != nil {
		t.Fatal(err)
	}
	return *out.LaunchTemplate.LaunchTemplateId
}

// ownedGroupTags returns the tags of a group of the cluster, and more.
func ownedGroupTags(more ...GroupTag) []GroupTag {
	return append(more, GroupTag{TagCluster, testCluster, true}, GroupTag{TagOwnerPrefix + testCluster, Owned, true})
}

func testGroup(t *testing.T, c *Client, name string) AutoScalingGroup {
	t.Helper()
	return AutoScalingGroup{
		Name: name, MaxSize: 1, LaunchTemplate: &GroupTemplate{ID: lit(testTemplate(t, c, name)), Version: lit("1")},
		Subnets: []resource.Value{lit(defaultNetwork(t, c).subnets[0])}, Tags: ownedGroupTags(),
	}
}

func testTargetGroup(t *testing.T, c *Client, name string) *TargetGroup {
	t.Helper()
	return build(t, c, &TargetGroups, TargetGroup{Name: name, Port: 443, Protocol: "TCP", VPC: lit(defaultNetwork(t, c).vpc),
		HealthCheck: HealthCheck{Protocol: "TCP", Interval: 10, HealthyThreshold: 2, UnhealthyThreshold: 2}, Tags: OwnedTags(testCluster, name)})
}

func liveGroup(t *testing.T, c *Client) {
	want := testGroup(t, c, "life."+testCluster)
	want.Tags = ownedGroupTags(GroupTag{"Owner", "nobody", true}, GroupTag{"Old", "x", true}, GroupTag{"k8s.io/empty", "", true})
	want.Metrics, want.Granularity = []string{"GroupMinSize", "GroupMaxSize"}, "1Minute"
	want.TargetGroups = []resource.Value{lit(testTargetGroup(t, c, "group-1").ARN)}
	second := lit(testTargetGroup(t, c, "group-2").ARN)
	subnets := defaultNetwork(t, c).subnets
	kindtest.Run(t, &AutoScalingGroups, c, kindtest.Life[AutoScalingGroup]{
		Cluster: testCluster,
		Want:    want,
		Changes: []kindtest.Change[AutoScalingGroup]{
			{Name: "sizes", Do: func(g *AutoScalingGroup) { g.MinSize, g.MaxSize = 1, 3 }},
			{Name: "template version", Do: func(g *AutoScalingGroup) { g.LaunchTemplate.Version = lit("2") }},
			{Name: "subnets", Do: func(g *AutoScalingGroup) { g.Subnets = resource.Lits(subnets[1], subnets[0]) }},
			{Name: "protection", Do: func(g *AutoScalingGroup) { g.ProtectFromScaleIn = true }},
			{Name: "second target group", Do: func(g *AutoScalingGroup) { g.TargetGroups = append(g.TargetGroups, second) }},
			{Name: "only the second target group", Do: func(g *AutoScalingGroup) { g.TargetGroups = []resource.Value{second} }},
			{Name: "tags", Do: func(g *AutoScalingGroup) {
				g.Tags = ownedGroupTags(GroupTag{"Owner", "someone", false}, GroupTag{"k8s.io/empty", "", true}, GroupTag{"New", "", true})
			}},
			{Name: "more metrics", Do: func(g *AutoScalingGroup) { g.Metrics = append(g.Metrics, "GroupTotalInstances") }},
			{Name: "suspended", Do: func(g *AutoScalingGroup) { g.SuspendedProcesses = []string{"AZRebalance", "Terminate"} }},
			{Name: "one resumed", Do: func(g *AutoScalingGroup) { g.SuspendedProcesses = []string{"AZRebalance"} }},
			{Name: "all resumed", Do: func(g *AutoScalingGroup) { g.SuspendedProcesses = nil }},
			{Name: "warm pool", Do: func(g *AutoScalingGroup) { g.WarmPool = &WarmPool{MaxPrepared: new(1)} }},
			{Name: "larger warm pool", Do: func(g *AutoScalingGroup) { g.WarmPool = &WarmPool{MinSize: 1} }},
			{Name: "no warm pool", Do: func(g *AutoScalingGroup) { g.WarmPool = nil }},
			{Name: "mixed", Do: func(g *AutoScalingGroup) {
				g.MixedInstances, g.LaunchTemplate = mixed(g.LaunchTemplate.ID, "2"), nil
			}},
		},
		Unrepeated: map[string]string{"only the second target group": "moto refuses to detach a target group that is no longer attached"},
		Untested: map[string]string{
			"LoadBalancers":       "it takes classic load balancers, whose API is not among the clients",
			"MaxInstanceLifetime": "moto forgets it",
			"CapacityRebalance":   "moto takes it in the creating call only",
		},
	})
}

// mixed returns a policy as kops creates it.
func mixed(template resource.Value, version string) *MixedInstances {
	return &MixedInstances{
		Distribution: InstancesDistribution{OnDemandPercentage: new(5), SpotInstancePools: new(3), SpotMaxPrice: "0.1"},
		Template: MixedTemplate{
			Specification: MixedSpecification{ID: template, Version: lit(version)},
			Overrides:     []InstanceOverride{{InstanceType: "m5.large"}, {InstanceType: "t2.medium"}},
		},
	}
}

func liveMixedGroup(t *testing.T, c *Client) {
	want := testGroup(t, c, "mixed."+testCluster)
	want.MixedInstances, want.LaunchTemplate = mixed(want.LaunchTemplate.ID, "1"), nil
	want.CapacityRebalance = true
	k := AutoScalingGroups.Erase()
	build(t, c, &AutoScalingGroups, want)
	observe := func() *AutoScalingGroup {
		list := observed(t, c, &AutoScalingGroups, resource.Scope{Cluster: testCluster})
		i := slices.IndexFunc(list, func(g *AutoScalingGroup) bool { return g.Name == want.Name })
		if i < 0 {
			t.Fatal("the group is not found")
		}
		return list[i]
	}
	if d := k.Schema().Diff(&want, observe()); len(d) > 0 {
		t.Errorf("after create: %+v", d)
	}
	want.MixedInstances.Distribution.SpotMaxPrice = ""
	want.MixedInstances.Template.Overrides = []InstanceOverride{
		{InstanceType: "t2.medium"},
		{Requirements: &InstanceRequirements{ExcludedTypes: []string{"m5.*"}, MemoryMiB: Range{Min: 2048}, VCPUs: Range{Min: 2, Max: new(8)}}},
	}
	have := observe()
	changes := k.Schema().Diff(&want, have)
	if len(changes) != 1 || changes[0].Field != "MixedInstances" {
		t.Fatalf("changes: %+v", changes)
	}
	if _, err := k.Set(t.Context(), c, have, &want, changes); err != nil {
		t.Fatal(err)
	}
	if d := k.Schema().Diff(&want, observe()); len(d) > 0 {
		t.Errorf("after the change: %+v", d)
	}
	if err := deleteGroup(t.Context(), c, &want); err != nil {
		t.Fatal(err)
	}
}

func liveHook(t *testing.T, c *Client) {
	g := build(t, c, &AutoScalingGroups, testGroup(t, c, "hooked."+testCluster))
	kindtest.Run(t, &LifecycleHooks, c, kindtest.Life[LifecycleHook]{
		Cluster: testCluster,
		Want: LifecycleHook{Name: "hooked-NTHLifecycleHook", Group: lit(g.ID), DefaultResult: "CONTINUE", HeartbeatTimeout: 300,
			Transition: "autoscaling:EC2_INSTANCE_TERMINATING"},
		Changes: []kindtest.Change[LifecycleHook]{
			{Name: "result", Do: func(h *LifecycleHook) { h.DefaultResult = "ABANDON" }},
			{Name: "timeout", Do: func(h *LifecycleHook) { h.HeartbeatTimeout = 600 }},
			{Name: "transition", Do: func(h *LifecycleHook) { h.Transition = "autoscaling:EC2_INSTANCE_LAUNCHING" }},
		},
		OnlyNamed: true,
	})
	t.Run("remembered hooks are not asked for", func(t *testing.T) { cachedHooksLive(t, c, g.ID) })
	t.Run("hooks of a new group are known", func(t *testing.T) { hooksOfNewGroupLive(t, c) })
	if err := deleteGroup(t.Context(), c, g); err != nil {
		t.Fatal(err)
	}
}

// hookMap is an in-memory memo.
type hookMap struct {
	mu   sync.Mutex
	data map[string][]byte
}

func (m *hookMap) Get(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[key]
	return data, ok
}

func (m *hookMap) Put(key string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data == nil {
		delete(m.data, key)
		return
	}
	m.data[key] = data
}

func cachedHooksLive(t *testing.T, plain *Client, group string) {
	c := NewClient(plain.Clients)
	c.Past = &hookMap{data: map[string][]byte{}}
	hook := LifecycleHook{Name: "kops-warmpool", Group: lit(group), DefaultResult: "ABANDON", HeartbeatTimeout: 600,
		Transition: "autoscaling:EC2_INSTANCE_LAUNCHING"}
	build(t, c, &LifecycleHooks, hook)
	scope := resource.Scope{Cluster: testCluster}
	listed := func() int { return len(observed(t, c, &LifecycleHooks, scope)) }
	if n := listed(); n != 1 {
		t.Fatalf("%d hooks, want 1", n)
	}
	// The hook is removed behind the memo's back: the remembered one still counts.
	behind := &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: &group, LifecycleHookName: &hook.Name}
	if _, err := c.AutoScaling.DeleteLifecycleHook(t.Context(), behind); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 1 {
		t.Errorf("%d hooks while one is remembered, want 1", n)
	}
	// After a write by kops, the next list sends a request.
	if err := deleteHook(t.Context(), c, &hook); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 0 {
		t.Errorf("%d hooks after kops deleted one, want 0", n)
	}
	// A recreated group is a different group.
	build(t, c, &LifecycleHooks, hook)
	if n := listed(); n != 1 {
		t.Fatalf("%d hooks, want 1", n)
	}
	if known, ok := past.Recall[groupHooks](c.Past, memoKey(c, group)); !ok || known.belongTo(astypes.AutoScalingGroup{AutoScalingGroupARN: new("arn:of:another:group")}) {
		t.Errorf("the hooks of an earlier group are taken for a new one's: %+v", known)
	}
}

// kops need not request hooks that it created, however many it writes concurrently.
func hooksOfNewGroupLive(t *testing.T, plain *Client) {
	var asked atomic.Int32
	c := NewClient(plain.Clients)
	c.Past = &hookMap{data: map[string][]byte{}}
	c.AutoScaling = autoscaling.New(c.AutoScaling.Options(), func(o *autoscaling.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			if stack.ID() == "DescribeLifecycleHooks" {
				asked.Add(1)
			}
			return nil
		})
	})
	g := build(t, c, &AutoScalingGroups, testGroup(t, c, "new."+testCluster))
	var puts errgroup.Group
	for i := range 5 {
		puts.Go(func() error {
			return putHook(t.Context(), c, &LifecycleHook{Name: fmt.Sprint("hook-", i), Group: lit(g.ID), DefaultResult: "ABANDON", HeartbeatTimeout: 600,
				Transition: "autoscaling:EC2_INSTANCE_LAUNCHING"})
		})
	}
	if err := puts.Wait(); err != nil {
		t.Fatal(err)
	}
	groups, err := describeGroups(t.Context(), c, resource.Scope{Cluster: testCluster, Names: []string{g.Name}})
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range groups {
		if *made.AutoScalingGroupName != g.Name {
			continue
		}
		if hooks, err := hooksOf(t.Context(), c, made); len(hooks) != 5 || asked.Load() != 0 || err != nil {
			t.Errorf("%d hooks after %d questions, want 5 without a question (%v)", len(hooks), asked.Load(), err)
		}
	}
	// If the group is recreated later, it does not have the former group's hooks.
	known, _ := past.Recall[groupHooks](c.Past, memoKey(c, g.Name))
	if later := time.Now().Add(time.Hour); known.belongTo(astypes.AutoScalingGroup{CreatedTime: &later}) {
		t.Error("the hooks of a group are taken for those of a later one")
	}
	// An interrupted write may or may not have taken effect: the next list sends a request.
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deleteHook(cut, c, &LifecycleHook{Name: "hook-0", Group: lit(g.ID)}); err == nil {
		t.Fatal("a call that was cut off succeeded")
	}
	if _, ok := past.Recall[groupHooks](c.Past, memoKey(c, g.Name)); ok {
		t.Error("hooks are remembered after a write that was cut off")
	}
	if err := deleteGroup(t.Context(), c, g); err != nil {
		t.Fatal(err)
	}
}

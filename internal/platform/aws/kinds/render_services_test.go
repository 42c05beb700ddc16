package kinds

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/engine/resource"
)

// Every attribute of the kinds outside EC2 exists in the provider's schema, with a matching type.
func TestRenderedServicesFitTheProvidersSchema(t *testing.T) {
	tags := OwnedTags(testCluster, "x")
	role := IAMRoles.New("masters."+testCluster, IAMRole{Name: "masters." + testCluster, AssumeRolePolicy: testTrust, PermissionsBoundary: "arn:b", Tags: tags})
	lb := LoadBalancers.New("api."+testCluster, LoadBalancer{Name: "api-abc123", Type: "network", IPAddressType: "dualstack",
		SecurityGroups: resource.Lits("sg-1"), AccessLogs: &AccessLogs{Enabled: true, Bucket: "logs", Prefix: "p"}, Tags: tags,
		Subnets: []SubnetMapping{{Subnet: lit("subnet-1"), AllocationID: lit("eipalloc-1")}, {Subnet: lit("subnet-2"), PrivateIPv4: "10.0.0.5"}}})
	tg := TargetGroups.New("tcp-abc123", TargetGroup{Name: "tcp-abc123", Port: 443, Protocol: "TCP", VPC: lit("vpc-1"), ConnectionTermination: "true",
		DeregistrationDelay: "30", Tags: tags, HealthCheck: HealthCheck{Protocol: "HTTPS", Path: "/healthz", Interval: 10, HealthyThreshold: 2, UnhealthyThreshold: 2}})
	group := AutoScalingGroups.New("nodes."+testCluster, AutoScalingGroup{Name: "nodes." + testCluster, MaxSize: 2, CapacityRebalance: true,
		LaunchTemplate: &GroupTemplate{ID: lit("lt-1"), Version: lit("1")}, Subnets: resource.Lits("subnet-1"), LoadBalancers: []string{"classic"},
		TargetGroups: []resource.Value{tg.Out("id")}, Tags: ownedGroupTags(GroupTag{Key: "empty"}), Metrics: []string{"GroupMinSize"},
		Granularity: "1Minute", SuspendedProcesses: []string{"AZRebalance"}, WarmPool: &WarmPool{MaxPrepared: new(1)}})
	policy := mixed(lit("lt-1"), "1")
	policy.Distribution = InstancesDistribution{OnDemandAllocationStrategy: "prioritized", OnDemandBaseCapacity: new(1), OnDemandPercentage: new(0),
		SpotAllocationStrategy: "lowest-price", SpotInstancePools: new(2)}
	policy.Template.Overrides = append(policy.Template.Overrides, InstanceOverride{Requirements: &InstanceRequirements{
		BurstablePerformance: "included", InstanceGenerations: []string{"current"}, MemoryMiB: Range{Min: 2048}, VCPUs: Range{Min: 2, Max: new(8)}}})
	queue := Queues.New("k-nth", Queue{Name: "k-nth", MessageRetentionSeconds: 300, Policy: testQueuePolicy, Tags: tags})
	rule := EventRules.New("k-ASGLifecycle", EventRule{Name: "k-ASGLifecycle", EventPattern: `{"source":["aws.ec2"]}`, Tags: tags})
	var g graph.Graph
	err := g.Add(role,
		IAMRolePolicies.New("masters."+testCluster, IAMRolePolicy{Name: "masters." + testCluster, Policy: testPolicy, Role: role.Out("name")}),
		IAMAttachments.New("master-policyoverride-1", IAMAttachment{PolicyARN: "arn:p", Role: role.Out("name")}),
		IAMProfiles.New("masters."+testCluster, IAMInstanceProfile{Name: "masters." + testCluster, Role: role.Out("name"), Tags: tags}),
		OIDCProviders.New(testCluster, OIDCProvider{URL: "https://issuer", ClientIDs: []string{"a"}, Thumbprints: []string{"9e"}, Tags: tags}),
		lb, tg,
		Listeners.New("api."+testCluster+"-443", Listener{LoadBalancer: lb.Out("id"), LoadBalancerName: "api-abc123", Port: 443, Protocol: "TLS",
			CertificateARN: "arn:c", SSLPolicy: "ELBSecurityPolicy-2016-08", DefaultAction: ListenerAction{TargetGroup: tg.Out("id"), Type: "forward"}}),
		group,
		AutoScalingGroups.New("mixed."+testCluster, AutoScalingGroup{Name: "mixed." + testCluster, MixedInstances: policy, Subnets: resource.Lits("subnet-1")}),
		LifecycleHooks.New("nodes-NTHLifecycleHook", LifecycleHook{Name: "nodes-NTHLifecycleHook", Group: group.Out("id"), DefaultResult: "CONTINUE",
			HeartbeatTimeout: 300, Transition: "autoscaling:EC2_INSTANCE_TERMINATING"}),
		queue, rule,
		EventTargets.New("k-ASGLifecycle-Target", EventTarget{Rule: rule.Out("id"), ARN: queue.Out("arn")}),
		DNSRecords.New("api."+testCluster, DNSRecord{ZoneID: "/hostedzone/Z1", Name: "api." + testCluster, Type: "A",
			Alias: &DNSAlias{Name: lb.Out("address"), ZoneID: lb.Out("zone")}}),
		DNSRecords.New("plain", DNSRecord{ZoneID: "/hostedzone/Z1", Name: "plain." + testCluster, Type: "A", TTL: 60, Records: resource.Lits("10.0.0.1")}),
		DNSPlaceholders.New("held", DNSPlaceholder{ZoneID: "/hostedzone/Z1", Name: "held." + testCluster, Type: "A"}),
		ZoneAssociations.New("zone", ZoneAssociation{ZoneID: "/hostedzone/Z1", VPC: lit("vpc-1")}),
	)
	if err != nil {
		t.Fatal(err)
	}
	files, err := terraform.Render(terraform.Document{Graph: &g})
	if err != nil {
		t.Fatal(err)
	}
	schematest.Validate(t, files)
	main := string(files[terraform.MainFile])
	for _, want := range []string{
		`spot_max_price`, `deregistration_delay   = "30"`, `connection_termination = "true"`, `max_instance_lifetime = 0`,
		`autoscaling_group_name = aws_autoscaling_group.nodes-k-example-com.id`,
	} {
		if !strings.Contains(main, want) {
			t.Errorf("kubernetes.tf does not say %s", want)
		}
	}
	for _, never := range []string{"placeholder", "LoadBalancerName", "load_balancer_name"} {
		if strings.Contains(main, never) {
			t.Errorf("kubernetes.tf says %s", never)
		}
	}
}

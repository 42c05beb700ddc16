package kinds

import (
	"slices"
	"strings"
	"testing"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

func testLoadBalancer(t *testing.T, c *Client, name string) LoadBalancer {
	t.Helper()
	n := defaultNetwork(t, c)
	return LoadBalancer{
		Name: name, Type: "network", Subnets: []SubnetMapping{{Subnet: lit(n.subnets[0])}, {Subnet: lit(n.subnets[1])}},
		SecurityGroups: []resource.Value{lit(testSecurityGroup(t, c, name))}, Tags: OwnedTags(testCluster, name),
	}
}

func liveLoadBalancer(t *testing.T, c *Client) {
	want := testLoadBalancer(t, c, "api-k-example-com-abc123")
	want.Tags, want.CrossZone = tagged("api."+testCluster), true
	subnets := defaultNetwork(t, c).subnets
	kindtest.Run(t, &LoadBalancers, c, kindtest.Life[LoadBalancer]{
		Cluster: testCluster,
		Want:    want,
		Changes: []kindtest.Change[LoadBalancer]{
			{Name: "dualstack", Do: func(l *LoadBalancer) { l.IPAddressType = "dualstack" }},
			{Name: "security groups", Do: func(l *LoadBalancer) {
				l.SecurityGroups = append(l.SecurityGroups, lit(testSecurityGroup(t, c, "second")))
			}},
			{Name: "subnets", Do: func(l *LoadBalancer) {
				l.Subnets = append(l.Subnets, SubnetMapping{Subnet: lit(subnets[2])})
			}},
			{Name: "logs", Do: func(l *LoadBalancer) {
				l.AccessLogs = &AccessLogs{Enabled: true, Bucket: "logs", Prefix: "p"}
			}},
			{Name: "no logs, no cross zone", Do: func(l *LoadBalancer) { l.AccessLogs, l.CrossZone = nil, false }},
			{Name: "tags", Do: func(l *LoadBalancer) { retagged(l.Tags) }},
		},
	})
	t.Run("the missing one of two names does not hide the other", func(t *testing.T) {
		l := build(t, c, &LoadBalancers, testLoadBalancer(t, c, "bastion-k-example-com-abc123"))
		list := observed(t, c, &LoadBalancers, resource.Scope{Cluster: testCluster, Names: []string{"api-none-abc123", l.Name}})
		if len(list) != 1 || list[0].Name != l.Name {
			t.Errorf("got %+v", list)
		}
		if err := LoadBalancers.Delete(t.Context(), c, l); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a deletion finds the balancers that controllers made, and no others", func(t *testing.T) {
		for name, owner := range map[string]string{"a-service": testCluster, "another-cluster": "x." + testCluster, "nobodys": ""} {
			tags := []elbtypes.Tag{{Key: new(TagOwnerPrefix + owner), Value: new(Owned)}}
			_, err := c.ELB.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{Name: &name, Type: elbtypes.LoadBalancerTypeEnumNetwork,
				Subnets: subnets[:1], Tags: tags})
			if err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, l := range observed(t, c, &LoadBalancers, resource.Scope{Cluster: testCluster, All: true}) {
			names = append(names, l.Name)
		}
		if !slices.Equal(names, []string{"a-service"}) {
			t.Errorf("got %v", names)
		}
		_, err := listLoadBalancers(t.Context(), c, resource.Scope{Cluster: testCluster, Names: []string{"nobodys"}})
		if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "nobodys") {
			t.Errorf("a wanted name that is another's: %v", err)
		}
	})
}

func liveListener(t *testing.T, c *Client) {
	l := build(t, c, &LoadBalancers, testLoadBalancer(t, c, "listened-abc123"))
	first, second := testTargetGroup(t, c, "listened-1"), testTargetGroup(t, c, "listened-2")
	kindtest.Run(t, &Listeners, c, kindtest.Life[Listener]{
		Cluster: testCluster,
		Want: Listener{LoadBalancer: lit(l.ID), LoadBalancerName: l.Name, Port: 443, Protocol: "TCP",
			DefaultAction: ListenerAction{TargetGroup: lit(first.ID), Type: "forward"}},
		Changes: []kindtest.Change[Listener]{
			{Name: "target", Do: func(l *Listener) { l.DefaultAction.TargetGroup = lit(second.ID) }},
		},
		Untested: map[string]string{
			"Protocol":       "moto knows no TLS listeners of network load balancers",
			"CertificateARN": "moto keeps certificates of HTTPS listeners only",
			"SSLPolicy":      "moto keeps the policy of HTTPS listeners only",
		},
	})
	if err := LoadBalancers.Delete(t.Context(), c, l); err != nil {
		t.Fatal(err)
	}
}

func liveTargetGroup(t *testing.T, c *Client) {
	kindtest.Run(t, &TargetGroups, c, kindtest.Life[TargetGroup]{
		Cluster: testCluster,
		Want: TargetGroup{Name: "kops-controller-k-example-abc123", Port: 3988, Protocol: "TCP", VPC: lit(defaultNetwork(t, c).vpc),
			ConnectionTermination: "true", DeregistrationDelay: "30", Tags: tagged("tg"),
			HealthCheck: HealthCheck{Protocol: "HTTPS", Path: "/healthz", Interval: 10, HealthyThreshold: 2, UnhealthyThreshold: 2}},
		Changes: []kindtest.Change[TargetGroup]{
			{Name: "delay", Do: func(g *TargetGroup) { g.DeregistrationDelay, g.ConnectionTermination = "60", "false" }},
			{Name: "health check", Do: func(g *TargetGroup) {
				g.HealthCheck = HealthCheck{Protocol: "HTTPS", Path: "/readyz", Interval: 30, HealthyThreshold: 3, UnhealthyThreshold: 3}
			}},
			{Name: "tags", Do: func(g *TargetGroup) { retagged(g.Tags) }},
		},
	})
}

func TestListenersKnowTheirLoadBalancersName(t *testing.T) {
	got := observedListener(elbtypes.Listener{
		LoadBalancerArn: new("arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/net/api-k-abc123/50dc6c495c0c9188"),
		ListenerArn:     new("arn:aws:elasticloadbalancing:us-east-1:123456789012:listener/net/api-k-abc123/50dc6c495c0c9188/0467ef3c8400ae65"),
		Port:            new(int32(443)), Protocol: elbtypes.ProtocolEnumTls,
		Certificates: []elbtypes.Certificate{{CertificateArn: new("arn:cert")}}, SslPolicy: new("ELBSecurityPolicy-2016-08"),
	})
	early := Listener{LoadBalancer: resource.Out(resource.Address{Kind: "aws_lb", Name: "api.k"}, "id"), LoadBalancerName: "api-k-abc123", Port: 443}
	if a, b := Listeners.Key(&early), Listeners.Key(got); a != b {
		t.Errorf("key %q before and %q after the balancer is known", a, b)
	}
	if got.CertificateARN != "arn:cert" || got.SSLPolicy != "ELBSecurityPolicy-2016-08" || got.Protocol != "TLS" {
		t.Errorf("got %+v", got)
	}
}

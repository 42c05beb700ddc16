package kinds

import (
	"net/netip"
	"testing"

	"kops.local/kops/internal/engine/resource"
)

func TestEveryKindIsDeclaredWell(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if seen[k.KindName()] {
			t.Errorf("%s is listed twice", k.KindName())
		}
		seen[k.KindName()] = true
	}
}

func TestCIDRSubnet(t *testing.T) {
	for _, tc := range []struct {
		whole       string
		bits, index int
		want        string
	}{
		{"2600:1f18:22e4:6600::/56", 8, 0, "2600:1f18:22e4:6600::/64"},
		{"2600:1f18:22e4:6600::/56", 8, 0x1f, "2600:1f18:22e4:661f::/64"},
		{"2600:1f18:22e4:6600::/56", 8, 255, "2600:1f18:22e4:66ff::/64"},
		{"2600:1f18:22e4:6600::/56", 8, 256, ""},
		{"2600:1f18:22e4:6600::/56", 8, -1, ""},
		{"2600:1f18:22e4:6600::/56", 80, 0, ""},
		{"10.0.0.0/16", 4, 15, "10.0.240.0/20"},
	} {
		got, err := cidrSubnet(netip.MustParsePrefix(tc.whole), tc.bits, tc.index)
		if tc.want == "" && err == nil || tc.want != "" && got.String() != tc.want {
			t.Errorf("part %d of %d bits more of %s: got %s, %v; want %q", tc.index, tc.bits, tc.whole, got, err, tc.want)
		}
	}
}

// AWS returns a range in canonical form: one declared in another form would be added again and
// again, and rejected as a duplicate.
func TestDeclaredRangesAreSpelledAsAWSReportsThem(t *testing.T) {
	rule := SecurityGroupRules.New("r", SecurityGroupRule{CIDRs: []string{"10.0.0.1/8"}, IPv6CIDRs: []string{"2001:DB8:0:0::/32"}}).Want.(*SecurityGroupRule)
	route := Routes.New("r", Route{IPv6CIDR: "2001:0db8::/32"}).Want.(*Route)
	subnet := Subnets.New("s", Subnet{IPv6CIDR: "2001:DB8:0:1::/64"}).Want.(*Subnet)
	for got, want := range map[string]string{
		rule.CIDRs[0]: "10.0.0.0/8", rule.IPv6CIDRs[0]: "2001:db8::/32", route.destination(): "2001:db8::/32", subnet.IPv6CIDR: "2001:db8:0:1::/64",
		canonicalRange("pl-1"): "pl-1",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestIPv6PartOfAVPCWithoutARangeIsRefused(t *testing.T) {
	for _, part := range []resource.Value{IPv6Part(lit(""), 8, 1), lit("cidrsubnet(x"), IPv6Part(lit("2600::/56"), 8, 256)} {
		if got, err := ipv6RangeOf(&Subnet{IPv6Part: part}); err == nil {
			t.Errorf("%s gave %s", part, got)
		}
	}
}

func TestPrunableRules(t *testing.T) {
	const c = testCluster
	rule := func(protocol string, from, to int) SecurityGroupRule {
		return SecurityGroupRule{Type: ingress, Protocol: protocol, FromPort: from, ToPort: to}
	}
	for _, tc := range []struct {
		group string
		rule  SecurityGroupRule
		want  bool
	}{
		{"masters." + c, rule("tcp", 443, 443), true},
		{"masters." + c, rule("tcp", 2380, 2380), true},
		{"masters." + c, rule("udp", 4789, 4789), true},
		{"masters." + c, rule("icmp", 3, 4), true},
		{"masters." + c, rule("icmpv6", -1, -1), true},
		{"masters." + c, rule("tcp", 80, 80), false},
		{"masters." + c, rule("tcp", 443, 444), false},
		{"masters." + c, rule("-1", 0, 0), false},
		{"nodes." + c, rule("tcp", 22, 22), true},
		{"nodes." + c, rule("tcp", 443, 443), false},
		{"nodes." + c, rule("icmp", 3, 4), false}, // created by the cloud controller, for a network load balancer
		{"nodes." + c, SecurityGroupRule{Type: egress, Protocol: "tcp", FromPort: 22, ToPort: 22}, false},
		{"api-elb." + c, rule("tcp", 8443, 8443), true},
		{"bastion." + c, rule("icmp", 3, 4), true},
		{"bastion-elb." + c, rule("tcp", 22, 22), true},
		{"masters.other." + c, rule("tcp", 443, 443), false},
		{"theirs", rule("tcp", 22, 22), false},
	} {
		if got := isPrunable(tc.group, c, &tc.rule); got != tc.want {
			t.Errorf("%s %s %d-%d: got %v", tc.group, tc.rule.Protocol, tc.rule.FromPort, tc.rule.ToPort, got)
		}
	}
}

// If a zone's egress changes, its NAT gateway is replaced, but the zone's routes remain: they can
// switch over only if the new one exists before the old one is deleted.
func TestNATGatewayIsReplacedUnderItsRoutes(t *testing.T) {
	if !NATGateways.New("z", NATGateway{}).Kind.CreatesFirst() {
		t.Error("a NAT gateway would go before the one that routes are to lead to is there")
	}
}

// Without pruning, only access from addresses that kops itself allowed is removed.
func TestRulesThatOnlyAllowAddresses(t *testing.T) {
	own := OwnedTags(testCluster, "x")
	any := []string{"0.0.0.0/0"}
	for what, c := range map[string]struct {
		rule SecurityGroupRule
		want bool
	}{
		"a range":         {SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 443, ToPort: 443, CIDRs: any, Tags: own}, true},
		"a range of IPv6": {SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 22, ToPort: 22, IPv6CIDRs: []string{"::/0"}, Tags: own}, true},
		"a prefix list":   {SecurityGroupRule{Type: ingress, Protocol: "icmp", FromPort: 3, ToPort: 4, PrefixLists: []string{"pl-1"}, Tags: own}, true},
		"a group":         {SecurityGroupRule{Type: ingress, Protocol: "-1", Source: lit("sg-1"), Tags: own}, false},
		"out":             {SecurityGroupRule{Type: egress, Protocol: "-1", CIDRs: any, Tags: own}, false},
		"nobody's":        {SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 22, ToPort: 22, CIDRs: any}, false},
		"tagged by hand":  {SecurityGroupRule{Type: ingress, Protocol: "tcp", FromPort: 22, ToPort: 22, CIDRs: any, Tags: Tags{TagCluster: testCluster}}, false},
	} {
		if got := SecurityGroupRules.Erase().Grants(&c.rule); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestAGroupSaysHowManyMachinesGoWithIt(t *testing.T) {
	for _, c := range []struct {
		min, max int
		want     string
	}{{0, 0, ""}, {1, 1, "1 machine"}, {3, 3, "3 machines"}, {0, 4, "0 to 4 machines"}} {
		if got := machineCount(&AutoScalingGroup{MinSize: c.min, MaxSize: c.max}); got != c.want {
			t.Errorf("%d to %d: %q, not %q", c.min, c.max, got, c.want)
		}
	}
}

package accesstest

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/access"
)

// Each difference is found, in either direction, and a reviewed one is not reported.
func TestDifferences(t *testing.T) {
	table := []access.Flow{
		{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: access.Port(443)},
		{From: access.Users, To: access.Nodes, Ranges: []string{"192.0.2.0/24"}, Protocol: access.UDP, Ports: access.Ports(30000, 30009)},
		{From: access.Users, To: access.Nodes, Protocol: access.TCP}, // nobody may
	}
	with := func(changes ...access.Flow) []access.Flow { return append(changes, table...) }
	groups := []*api.InstanceGroup{{Spec: api.InstanceGroupSpec{Role: api.RoleAPIServer}}}
	for name, c := range map[string]struct {
		open  []access.Flow
		judge Judge
		want  []string
	}{
		"equal":       {open: table},
		"in pieces":   {open: []access.Flow{table[0], {Ranges: table[1].Ranges, To: access.Nodes, Protocol: access.UDP, Ports: access.Ports(30000, 30004)}, {Ranges: table[1].Ranges, To: access.Nodes, Protocol: access.UDP, Ports: access.Ports(30005, 30009)}}},
		"closed":      {open: table[1:], want: []string{"closed: nodes → API servers, tcp 443", "closed: nodes → control planes, tcp 443"}},
		"one role":    {open: []access.Flow{{From: access.Nodes, To: access.ControlPlanes, Protocol: access.TCP, Ports: access.Port(443)}, table[1]}, want: []string{"closed: nodes → API servers, tcp 443"}},
		"some ports":  {open: []access.Flow{table[0], {Ranges: table[1].Ranges, To: access.Nodes, Protocol: access.UDP, Ports: access.Ports(30001, 30008)}}, want: []string{"closed: 192.0.2.0/24 → nodes, udp 30000", "closed: 192.0.2.0/24 → nodes, udp 30009"}},
		"other range": {open: with(access.Flow{Ranges: []string{"0.0.0.0/0"}, To: access.Nodes, Protocol: access.UDP, Ports: access.Port(30000)}), want: []string{"open: 0.0.0.0/0 → nodes, udp 30000"}},
		"everything":  {open: with(access.Flow{From: access.Bastions, To: access.Nodes, Protocol: "esp"}), want: []string{"open: bastions → nodes, esp 0"}},
		"reviewed": {open: with(access.Flow{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: access.Ports(400, 500)}),
			judge: Judge{Wider: []Exception{{From: access.Nodes, To: access.ControlPlanes, Protocol: access.TCP, Ports: access.Ports(400, 490)}}},
			want:  []string{"open: nodes → API servers, tcp 400-442", "open: nodes → API servers, tcp 444-500", "open: nodes → control planes, tcp 491-500"}},
		"elsewhere": {open: table[1:], judge: Judge{Narrower: []Exception{{When: func(s *api.ClusterSpec) bool { return s.IPv6Only() }}}},
			want: []string{"closed: nodes → API servers, tcp 443", "closed: nodes → control planes, tcp 443"}},
		"users": {open: []access.Flow{table[0]}, judge: Judge{Narrower: []Exception{{From: access.Users}}}},
	} {
		if got := c.judge.problems(&api.Cluster{}, groups, table, c.open); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// Without API servers, there is only one kind of servers.
func TestRolesOfTheCluster(t *testing.T) {
	flows := []access.Flow{{From: access.Servers, To: access.Servers, Protocol: access.TCP}}
	var j Judge
	if got := j.problems(&api.Cluster{}, nil, flows, nil); !slices.Equal(got, []string{"closed: control planes → control planes, tcp 1-65535"}) {
		t.Error(got)
	}
}

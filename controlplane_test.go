package kops

import (
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/store/clusterstore"
)

// control returns a cluster whose etcd main has a member on each group.
func control(groups ...string) *api.Cluster {
	c := &api.Cluster{}
	c.Name = "a.example.com"
	e := api.EtcdClusterSpec{Name: "main"}
	for _, g := range groups {
		e.EtcdMembers = append(e.EtcdMembers, api.EtcdMemberSpec{Name: g, InstanceGroup: &g})
	}
	c.Spec.EtcdClusters = []api.EtcdClusterSpec{e}
	return c
}

func TestAMemberThatStaysKeepsItsData(t *testing.T) {
	counted := func(e api.EtcdClusterSpec) (out []string) {
		for i := range e.EtcdMembers {
			out = append(out, string(rune('0'+i)))
		}
		return out
	}
	for _, x := range []struct {
		what     string
		peers    func(api.EtcdClusterSpec) []string
		was, now *api.Cluster
		refused  bool
	}{
		{"named, the first go", traits.NamedPeers, control("a", "b", "c"), control("c"), false},
		{"counted, the last go", counted, control("a", "b", "c"), control("a"), false},
		{"counted, more come", counted, control("a"), control("a", "b", "c"), false},
		{"counted, the first go", counted, control("a", "b", "c"), control("c"), true},
		{"nobody can name them", nil, control("a", "b", "c"), control("c"), false},
	} {
		if err := checkRenames(x.peers, x.was, x.now).Err(); (err != nil) != x.refused {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	renamed := control("a")
	renamed.Spec.EtcdClusters[0].EtcdMembers[0].Name = "z"
	if err := checkRenames(traits.NamedPeers, control("a"), renamed).Err(); err == nil {
		t.Error("a member gets another name, and with it another disk")
	}
}

func TestAGroupTakesThePlaceOfAnother(t *testing.T) {
	was := &clusterstore.Contents{Spec: control("a", "b", "c")}
	for _, name := range []string{"a", "b", "c"} {
		g := &api.InstanceGroup{}
		g.Name, g.Spec.Role, g.Spec.MachineType, g.Spec.Subnets = name, api.RoleControlPlane, "large", []string{"here"}
		g.Spec.NodeLabels = map[string]string{api.LabelInstanceGroup: name, "mine": name}
		was.Groups = append(was.Groups, g)
	}
	now, g := inPlaceOf(was, was.Group("b"), NewGroupRequest{Name: "d", Subnets: []string{"there"}})
	if g.Name != "d" || g.Spec.MachineType != "large" || !slices.Equal(g.Spec.Subnets, []string{"there"}) || g.Spec.NodeLabels[api.LabelInstanceGroup] != "d" || g.Spec.NodeLabels["mine"] != "b" {
		t.Errorf("the group is %+v", g.Spec)
	}
	if now.Group("b") != nil || now.Group("d") != g || len(now.Groups) != 3 || was.Group("b") == nil {
		t.Errorf("the groups are %v", now.Groups)
	}
	for _, m := range []struct{ at, name string }{{"was", "b"}, {"now", "d"}} {
		c := map[string]*clusterstore.Contents{"was": was, "now": now}[m.at]
		if got := c.Spec.Spec.EtcdClusters[0].EtcdMembers[1]; got.Name != m.name || *got.InstanceGroup != m.name {
			t.Errorf("%s the member is %s on %s", m.at, got.Name, *got.InstanceGroup)
		}
	}
	counted := func(api.EtcdClusterSpec) []string { return []string{"0", "1", "2"} }
	for what, x := range map[string]struct {
		peers   func(api.EtcdClusterSpec) []string
		refused bool
	}{"named": {traits.NamedPeers, false}, "counted": {counted, true}, "nobody can name them": {nil, true}} {
		if err := checkSeats(x.peers, "a cloud", was.Spec, now.Spec); (err != nil) != x.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package kops

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
)

// control is a cluster whose etcd main has a member on each group.
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
		if err := reseated(x.peers, x.was, x.now).Err(); (err != nil) != x.refused {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	renamed := control("a")
	renamed.Spec.EtcdClusters[0].EtcdMembers[0].Name = "z"
	if err := reseated(traits.NamedPeers, control("a"), renamed).Err(); err == nil {
		t.Error("a member gets another name, and with it another disk")
	}
}

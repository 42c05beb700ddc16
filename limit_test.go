package kops_test

import (
	"slices"
	"testing"

	"kops.local/kops"
)

// TestUpdatesOfAPart changes everything about a cluster, and updates a part.
func TestUpdatesOfAPart(t *testing.T) {
	const balancer, planes, nodes = "create balancer/api", "update machines/control-plane-here", "update machines/nodes-here"
	for _, c := range []struct {
		name  string
		lost  []string // what is not there
		o     kops.UpdateOptions
		want  []string
		error string
	}{
		{name: "all", want: []string{planes, nodes}},
		{name: "a group", o: kops.UpdateOptions{Groups: []string{"nodes-here"}}, want: []string{nodes}},
		{name: "a role", o: kops.UpdateOptions{Roles: []string{"control-plane"}}, want: []string{planes}},
		{name: "a role by its old name", o: kops.UpdateOptions{Roles: []string{"Master"}}, want: []string{planes}},
		{name: "a group of another role", o: kops.UpdateOptions{Groups: []string{"nodes-here"}, Roles: []string{"bastion"}}},
		{name: "a group, and what all share", o: kops.UpdateOptions{Groups: []string{"nodes-here"}}, lost: []string{"fake_balancer/api." + name}, want: []string{balancer, nodes}},
		{name: "the network", o: kops.UpdateOptions{Phase: "network"}},
		{name: "the machines", o: kops.UpdateOptions{Phase: "cluster"}, want: []string{planes, nodes}},
		{name: "a type is left alone", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Ignore"}}},
		{name: "one of a type is left alone", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines/nodes-here." + name: "Ignore"}}, want: []string{planes}},
		{name: "one of a type that is left alone is not", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Ignore", "Machines/nodes-here." + name: "Sync"}}, want: []string{nodes}},
		{name: "a type must be there, and is", o: kops.UpdateOptions{Lifecycles: map[string]string{"Network": "ExistsAndValidates"}}, want: []string{planes, nodes}},
		{name: "a type must be there, and is not", o: kops.UpdateOptions{Lifecycles: map[string]string{"LoadBalancer": "ExistsAndWarnIfChanges"}},
			lost: []string{"fake_balancer/api." + name}, error: "fake_balancer/api." + name},
		{name: "a lifecycle of one wins over the phase", o: kops.UpdateOptions{Phase: "network", Lifecycles: map[string]string{"Machines": "Sync"}}, error: "fake_machines/control-plane-here.a.example.com needs keyset/apiserver-aggregator-ca and 7 others, which this update leaves out"},

		{name: "unknown phase", o: kops.UpdateOptions{Phase: "storage"}, error: `unknown phase "storage"; use network, security or cluster`},
		{name: "unknown group", o: kops.UpdateOptions{Groups: []string{"node-here"}}, error: `did you mean "nodes-here"?`},
		{name: "unknown role", o: kops.UpdateOptions{Roles: []string{"worker"}}, error: `unknown role "worker"; use control-plane, apiserver, node or bastion`},
		{name: "unknown type", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machine": "Ignore"}}, error: `unknown type of resource "Machine"; did you mean Machines?`},
		{name: "no type at all", o: kops.UpdateOptions{Lifecycles: map[string]string{"x": "Ignore"}}, error: `unknown type of resource "x"; use LoadBalancer, Machines, Network`},
		{name: "unknown name", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines/node-here." + name: "Ignore"}}, error: `the cluster has no Machines "node-here.a.example.com"; did you mean nodes-here.a.example.com?`},
		{name: "no name at all", o: kops.UpdateOptions{Lifecycles: map[string]string{"Network/": "Ignore"}}, error: `the cluster has no Network ""; it has a.example.com`},
		{name: "unknown lifecycle", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Never"}}, error: `unknown lifecycle "Never" of Machines; use Sync`},
		{name: "prune of a phase", o: kops.UpdateOptions{Prune: true, Phase: "network"}, error: "--prune needs the whole cluster"},
		{name: "prune of a group", o: kops.UpdateOptions{Prune: true, Groups: []string{"nodes-here"}}, error: "--prune needs the whole cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := applied(t)
			b.set("nodes-here", "spec.machineType=big")
			b.set("control-plane-here", "spec.machineType=big")
			for _, l := range c.lost {
				b.world.Lose(l)
			}
			before := b.world.Objects()
			u, err := b.Update(t.Context(), name, c.o)
			if c.error != "" {
				says(t, err, c.error)
				c.o.Apply = true
				if _, err := b.Update(t.Context(), name, c.o); err == nil {
					t.Error("with Apply there is no error")
				}
			} else if err != nil {
				t.Fatal(err)
			} else if got := changes(u.Plan); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) {
				t.Errorf("changes %q, want %q", got, c.want)
			}
			if !slices.Equal(before, b.world.Objects()) {
				t.Errorf("the platform was changed: %q", b.world.Objects())
			}
		})
	}
}

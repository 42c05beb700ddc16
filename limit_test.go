package kops_test

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops"
)

// TestUpdatesOfAPart changes everything about a cluster, and updates only a part of it.
func TestUpdatesOfAPart(t *testing.T) {
	const balancer, planes, nodes = "create balancer/api", "modify machines/control-plane-here", "modify machines/nodes-here"
	for _, c := range []struct {
		name  string
		lost  []string // objects that do not exist
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
		{name: "iam", o: kops.UpdateOptions{Phase: "iam"}},
		{name: "the machines", o: kops.UpdateOptions{Phase: "cluster"}, want: []string{planes, nodes}},
		{name: "a type is left alone", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Ignore"}}},
		{name: "one of a type is left alone", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines/nodes-here." + name: "Ignore"}}, want: []string{planes}},
		{name: "one of a type that is left alone is not", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Ignore", "Machines/nodes-here." + name: "Sync"}}, want: []string{nodes}},
		{name: "a type must be there, and is", o: kops.UpdateOptions{Lifecycles: map[string]string{"Network": "ExistsAndValidates"}}, want: []string{planes, nodes}},
		{name: "a type must be there, and is not", o: kops.UpdateOptions{Lifecycles: map[string]string{"LoadBalancer": "ExistsAndWarnIfChanges"}},
			lost: []string{"fake_balancer/api." + name}, error: "fake_balancer/api." + name},
		{name: "a lifecycle of one wins over the phase", o: kops.UpdateOptions{Phase: "network", Lifecycles: map[string]string{"Machines": "Sync"}}, error: "fake_machines/control-plane-here.a.example.com needs keyset/apiserver-aggregator-ca and 7 others, which this update leaves out"},

		{name: "unknown phase", o: kops.UpdateOptions{Phase: "storage"}, error: `unknown phase "storage"; use network, security (or iam) or cluster`},
		{name: "unknown group", o: kops.UpdateOptions{Groups: []string{"node-here"}}, error: `did you mean "nodes-here"?`},
		{name: "unknown role", o: kops.UpdateOptions{Roles: []string{"worker"}}, error: `unknown role "worker"; use control-plane, apiserver, node or bastion`},
		{name: "unknown type", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machine": "Ignore"}}, error: `unknown type of resource "Machine"; did you mean Machines?`},
		{name: "no type at all", o: kops.UpdateOptions{Lifecycles: map[string]string{"x": "Ignore"}}, error: `unknown type of resource "x"; use LoadBalancer, Machines, ManagedFile, Network`},
		{name: "unknown name", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines/node-here." + name: "Ignore"}}, error: `the cluster has no Machines "node-here.a.example.com"; did you mean nodes-here.a.example.com?`},
		{name: "no name at all", o: kops.UpdateOptions{Lifecycles: map[string]string{"Network/": "Ignore"}}, error: `the cluster has no Network ""; it has a.example.com`},
		{name: "unknown lifecycle", o: kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Never"}}, error: `unknown lifecycle "Never" of Machines; use Sync`},
		{name: "prune of a phase", o: kops.UpdateOptions{Prune: true, Phase: "network"}, error: "option:Prune needs the whole cluster"},
		{name: "prune of a group", o: kops.UpdateOptions{Prune: true, Groups: []string{"nodes-here"}}, error: "option:Prune needs the whole cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newAppliedBench(t)
			b.set("nodes-here", "spec.machineType=big")
			b.set("control-plane-here", "spec.machineType=big")
			for _, l := range c.lost {
				b.world.Lose(l)
			}
			before := b.world.Objects()
			u, err := b.Update(t.Context(), name, c.o)
			if c.error != "" {
				expectTexts(t, err, c.error)
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

// Objects outside the updated part are not reported as unwanted: they were not compared.
func TestAnUpdateOfAPartListsNothingElse(t *testing.T) {
	b := newAppliedBench(t)
	b.addGroup("spare")
	b.apply(kops.UpdateOptions{})
	if err := b.removeFromStore("spare"); err != nil {
		t.Fatal(err)
	}
	spare := "machines/spare"
	for what, c := range map[string]struct {
		o    kops.UpdateOptions
		want []string
	}{
		"all":             {kops.UpdateOptions{}, []string{spare}},
		"a group":         {kops.UpdateOptions{Groups: []string{"nodes-here"}}, nil},
		"a role":          {kops.UpdateOptions{Roles: []string{"node"}}, nil},
		"the network":     {kops.UpdateOptions{Phase: "network"}, nil},
		"the machines":    {kops.UpdateOptions{Phase: "cluster"}, []string{spare}},
		"but a type":      {kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "Ignore"}}, nil},
		"a type as it is": {kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "ExistsAndWarnIfChanges"}}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, s := range b.preview(c.o).Plan.Deferred {
				if strings.HasPrefix(s.Kind, "fake_") {
					got = append(got, strings.TrimSuffix(strings.TrimPrefix(s.Kind+"/"+s.Name, "fake_"), "."+name))
				} else if len(c.o.Groups)+len(c.o.Roles) == 0 && c.o.Phase == "network" {
					got = append(got, s.Kind+"/"+s.Name)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("not wanted are %q, want %q", got, c.want)
			}
		})
	}
}

// Objects outside the updated part may be required to match.
func TestExistsAndValidatesInsists(t *testing.T) {
	b := newAppliedBench(t)
	b.preview(kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "ExistsAndValidates"}})
	b.set("nodes-here", "spec.machineType=big")
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "ExistsAndValidates"}})
	expectTexts(t, err, "fake_machines/nodes-here."+name+" must be up to date", `instead of "big"`)
	b.preview(kops.UpdateOptions{Lifecycles: map[string]string{"Machines": "ExistsAndWarnIfChanges"}})
}

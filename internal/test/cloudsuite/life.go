package cloudsuite

import (
	"slices"
	"strings"

	"kops.local/kops/internal/test/clitest"
)

// live takes a small cluster through its life: it is previewed, created, changed and deleted.
func (w *World) live() {
	w.Small()
	w.checkContains("a preview", w.Preview().Out, "Must specify --yes to apply changes")
	if made := w.made(); len(made) > 0 {
		w.Errorf("a preview created %s", strings.Join(made, ", "))
	}
	w.measureApplied()
	e := w.Cloud.Edit
	w.Set(w.Nodes(), e.Field)
	r := w.Preview()
	w.checkContains("the preview of an edit", r.Out, e.Shows)
	if strings.Contains(r.Out, e.Hides) {
		w.Errorf("the preview of an edit has %s:\n%s", e.Hides, r.Out)
	}
	w.Apply()
	for _, round := range changes() {
		w.change(round)
	}
	w.checkContains("the preview of the deletion", w.Must("delete", "cluster", Name).Out,
		w.Cloud.Network+" ", w.Env["KOPS_STATE_STORE"]+"/"+Name+"/config", "Must specify --yes to delete cluster")
	w.measure(smallDeletion, "delete", "cluster", Name, "--yes")
	w.CheckNothingLeft()
}

// liveNameless does the same for a cluster without names, briefly.
func (w *World) liveNameless() {
	w.measureNameless()
	w.CheckUnchanged()
	w.Delete()
}

// liveIn creates and deletes a cluster of another topology.
func (w *World) liveIn(options []string) {
	w.Small(options...)
	w.Apply()
	w.Delete()
}

// change is one change of the objects, and what it must do.
type change struct {
	title string
	do    func(*World)
	check func(*World) // of every cloud; may be nil
}

// more is the name of a further group.
const more = "more"

// Titles of changes that a cloud may check besides those of changes: of the replacement of outdated
// machines, and of a load balancer of a type.
const (
	roll     = "a roll"
	balancer = "a balancer, "
)

// changes are the changes that a user may make, in rounds: those of one round are applied together.
func changes() [][]change {
	return [][]change{{
		{"the sizes of a group", func(w *World) { w.Set(w.Nodes(), "spec.minSize=3", "spec.maxSize=5") }, nil},
		{"who may come in", func(w *World) {
			w.Set("", "spec.sshAccess=192.0.2.0/24,2001:db8::/32", "spec.kubernetesApiAccess=198.51.100.0/24")
		}, nil},
		{"larger disks of etcd", func(w *World) { w.Set("", "spec.etcdClusters[0].etcdMembers[0].volumeSize=30") }, nil},
		{"a group in several zones", func(w *World) {
			w.Must(slices.Concat([]string{"create", "instancegroup", more, "--name", Name, "--edit=false"}, w.Cloud.More)...)
			w.Set(more, "spec.minSize=3", "spec.maxSize=3")
		}, nil},
	}, {
		{"a machine type", func(w *World) { w.Set(w.Nodes(), "spec.machineType="+w.Cloud.Type) }, (*World).checkOutdated},
		{"labels of machines", func(w *World) { w.Set(w.Nodes(), "spec.cloudLabels.team=a") }, nil},
		{"nobody may come in", func(w *World) { w.Must("edit", "cluster", Name, "--unset", "spec.sshAccess") }, nil},
		{"one zone more", func(w *World) { w.Set(more, w.Cloud.OneZoneMore) }, func(w *World) {
			if roll := w.previewRoll(); strings.Contains(roll, "spec.zones") {
				w.Errorf("one zone more makes machines in other zones outdated:\n%s", roll)
			}
		}},
	}, {
		{"a group less", func(w *World) { w.Must("delete", "instancegroup", more, "--name", Name, "--yes") }, func(w *World) {
			for _, left := range w.Inventory() {
				if strings.Contains(left, more) {
					w.Errorf("a deleted group leaves %s", left)
				}
			}
		}},
	}}
}

// change makes changes and applies them: each, and nothing else, must be done.
func (w *World) change(round []change) {
	round = slices.DeleteFunc(round, func(c change) bool { return w.Cloud.Cannot[c.title] != "" })
	for _, c := range round {
		c.do(w)
	}
	w.Apply()
	for _, c := range round {
		if c.check != nil {
			c.check(w)
		}
		w.checkChanged(c.title)
	}
}

// checkChanged calls the cloud's own check of a change.
func (w *World) checkChanged(title string) {
	w.Helper()
	if check := w.Cloud.Changed[title]; check != nil {
		check(w)
	}
}

// checkOutdated checks that a preview of a roll names the field for which machines are outdated.
func (w *World) checkOutdated() {
	if w.Cloud.Outdate != nil {
		w.Cloud.Outdate(w)
	}
	w.checkContains("the preview of a roll", w.previewRoll(), "spec.machineType", w.Cloud.Type)
}

// previewRoll previews the replacement of outdated machines.
func (w *World) previewRoll() string {
	w.Helper()
	return w.Must("rolling-update", "cluster", Name, "--cloudonly").Out
}

// checkNeighbours checks that a deletion does not affect clusters whose names only have the same
// beginning or end.
func (w *World) checkNeighbours() {
	for _, other := range []string{"a-" + Name, "b." + Name, Name + ".org", strings.TrimSuffix(Name, "m")} {
		w.Create(other, w.Cloud.Nameless...)
		w.Must("update", "cluster", other, "--yes")
	}
	w.Remember()
	w.liveIn(w.Cloud.Nameless)
}

// liveWith creates and deletes a cluster in a network of others.
func (w *World) liveWith(s Shared) {
	options, kept := s.Make(w)
	w.Remember()
	w.Small(options...)
	w.Apply()
	if s.Check != nil {
		s.Check(w)
	}
	r := w.Must("delete", "cluster", Name)
	_, list, _ := strings.Cut(r.Out, "Kept, because it is shared")
	w.checkContains("what the preview of the deletion says is kept", list, kept...)
	w.Delete()
}

// changeBalancer adds a load balancer of the API to a cluster, and removes it.
func (w *World) changeBalancer(b Balancer) {
	w.Small("--dns", "public", "--topology", b.Topology)
	w.Must("edit", "cluster", Name, "--unset", "spec.api.loadBalancer", "--set", "spec.api.dns={}")
	w.Apply()
	without := w.made()
	w.Set("", append(b.Fields, "spec.api.loadBalancer.type="+b.Type)...)
	w.Apply()
	if with := clitest.Difference(w.made(), without); len(with) == 0 {
		w.Error("no load balancer was created")
	}
	w.checkChanged(balancer + b.Type)
	w.Must("edit", "cluster", Name, "--unset", "spec.api.loadBalancer")
	r := w.Must("update", "cluster", Name, "--yes")
	w.checkContains("an update without the balancer", r.Out+r.Err, "--prune")
	w.Must("update", "cluster", Name, "--yes", "--prune")
	w.CheckUnchanged()
	if left := clitest.Difference(w.made(), without); len(left) > 0 {
		w.Errorf("a balancer that was removed leaves\n%s", strings.Join(left, "\n"))
	}
	w.Delete()
}

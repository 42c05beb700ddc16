package keeper

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

func TestTemplateIsOfEverythingButTheSize(t *testing.T) {
	g := Group{Name: "nodes", Size: 1, Image: "/i", MemoryMiB: 1024, UserData: "#!", Labels: map[string]string{"a": "b"}}
	other := g
	other.Size = 7
	if g.Template() != other.Template() {
		t.Error("the size is part of the template")
	}
	for name, change := range map[string]func(*Group){
		"image": func(g *Group) { g.Image = "/j" }, "memory": func(g *Group) { g.MemoryMiB = 1 }, "disk": func(g *Group) { g.DiskGiB = 1 }, "least disk": func(g *Group) { g.MinDiskGiB = 4 }, "user data": func(g *Group) { g.UserData = "#!x" },
		"labels": func(g *Group) { g.Labels = nil }, "folders": func(g *Group) { g.Folders = []machine.Folder{{Host: "/a", Path: "/b"}} },
	} {
		changed := g
		change(&changed)
		if changed.Template() == g.Template() {
			t.Errorf("the %s is not part of the template", name)
		}
	}
}

func TestSurplus(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := Group{Name: "g", Size: 2}
	m := func(name, group, template string, age time.Duration, running bool) machine.Machine {
		return machine.Machine{Name: name, Group: group, Template: template, Created: now.Add(-age), Running: running}
	}
	marked := func(m machine.Machine, mark machine.Mark, ago time.Duration) machine.Machine {
		m.Marks = machine.Marks{mark: now.Add(-ago)}
		return m
	}
	is := g.Template()
	for _, c := range []struct {
		name     string
		machines []machine.Machine
		want     []string
	}{
		{"as wished", []machine.Machine{m("a", "g", is, time.Hour, true), m("b", "g", "old", time.Hour, true)}, nil},
		{"the dead", []machine.Machine{m("a", "g", is, time.Hour, false), m("b", "g", is, time.Hour, true)}, []string{"a"}},
		{"a group that is not wished", []machine.Machine{m("a", "x", is, time.Hour, true)}, []string{"a"}},
		{"one by itself is nobody's, dead or not", []machine.Machine{m("a", "", "", time.Hour, true), m("b", "", "", time.Hour, false)}, nil},
		{"never finished", []machine.Machine{{Name: "a"}}, []string{"a"}},
		{"older templates first", []machine.Machine{m("a", "g", is, time.Minute, true), m("b", "g", "old", time.Hour, true), m("c", "g", is, time.Second, true)}, []string{"b"}},
		{"a detached one is not counted", []machine.Machine{m("a", "g", is, time.Minute, true), m("b", "g", is, time.Hour, true), marked(m("c", "g", "old", time.Hour, true), machine.MarkDetached, 0)}, nil},
		{"a detached one of a group that is not wished", []machine.Machine{marked(m("a", "x", is, time.Hour, true), machine.MarkDetached, 0)}, []string{"a"}},
		{"one that ends is given time", []machine.Machine{marked(m("a", "g", is, time.Hour, true), machine.MarkEnding, EndTime), m("b", "g", is, time.Hour, true), m("c", "g", is, time.Hour, true)}, nil},
		{"and not more", []machine.Machine{marked(m("a", "g", is, time.Hour, true), machine.MarkEnding, EndTime+1)}, []string{"a"}},
		{"one that has ended", []machine.Machine{marked(m("a", "g", is, time.Hour, false), machine.MarkEnding, 0)}, []string{"a"}},
		{"then the youngest", []machine.Machine{m("a", "g", is, time.Minute, true), m("b", "g", is, time.Hour, true), m("c", "g", is, time.Second, true)}, []string{"c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeeper(machine.Host{}, slog.New(slog.DiscardHandler))
			var got []string
			for _, x := range k.surplusMachines(c.machines, map[string]Group{"g": g}, now) {
				got = append(got, x.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, not %v", got, c.want)
			}
			if p, waits := k.backoffs["g"]; waits && !strings.HasPrefix(c.name, "the dead") {
				t.Errorf("the group waits: %v", p)
			}
		})
	}
}

// TestAMachineIsRemovedOnce even if it is both surplus and requested for replacement.
func TestAMachineIsRemovedOnce(t *testing.T) {
	a, b := machine.Machine{Name: "a"}, machine.Machine{Name: "b"}
	got := deduplicate([]machine.Machine{a, b, a})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("removed are %v", got)
	}
}

func TestMachinesThatDieYoungMakeTheirGroupWait(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := newKeeper(machine.Host{}, slog.New(slog.DiscardHandler))
	die := func(age time.Duration) time.Duration {
		now = now.Add(time.Millisecond)
		for range 3 { // failures at the same time count once
			k.noteDeath(machine.Machine{Name: "a", Group: "g", Created: now.Add(-age)}, now)
		}
		return k.backoffs["g"].until.Sub(now)
	}
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		if got := die(time.Second); got != want {
			t.Errorf("after death %d the group waits %s, not %s", i+1, got, want)
		}
	}
	for range 20 {
		die(time.Second)
	}
	if got := die(time.Second); got != maxBackoff {
		t.Errorf("the longest wait is %s", got)
	}
	die(time.Hour)
	if _, waits := k.backoffs["g"]; waits {
		t.Error("the death of an old machine makes its group wait")
	}
	die(time.Second)
	have := []machine.Machine{{Name: "b", Group: "g", Created: now.Add(-time.Hour)}, {Name: "c", Group: "g", Created: now}}
	for _, c := range []struct {
		what string
		size int
		now  time.Time
		want bool
	}{
		{"while it lacks one", 3, now.Add(time.Millisecond), true},
		{"while one is young", 2, now.Add(time.Millisecond), true},
		{"when all have lived for some time", 2, now.Add(time.Minute), false},
	} {
		k.createMissing(t.Context(), netip.Prefix{}, Group{Name: "g", Size: c.size}, have, c.now) //nolint:errcheck // only the wait is checked
		if _, waits := k.backoffs["g"]; waits != c.want {
			t.Errorf("%s, the group's past is remembered: %t", c.what, waits)
		}
	}
}

// newDiskKeeper returns the keeper of a cluster whose machines are folders; none of them runs.
func newDiskKeeper(t *testing.T) *keeper {
	t.Helper()
	return newKeeper(machine.Host{Site: site.Site{Root: t.TempDir(), Cluster: "a.k8s.local"}}, slog.New(slog.DiscardHandler))
}

func cidr() netip.Prefix { return netip.MustParsePrefix("10.77.0.0/24") }

// A machine that cannot be created is retried at growing intervals, and reported in
// the same words meanwhile, so that neither the log nor the disk is kept busy.
func TestAMachineThatCannotBeMadeIsTriedLater(t *testing.T) {
	k, now := newDiskKeeper(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	groups := []Group{{Name: "g", Size: 1, Image: "/no/such/image"}}
	last, tries := "", 0
	for at := time.Duration(0); at < 10*time.Minute; at += reconcilePeriod {
		err := k.reconcileGroups(t.Context(), cidr(), groups, now.Add(at))
		if err == nil || !strings.Contains(err.Error(), "/no/such/image") {
			t.Fatalf("the error is %v", err)
		}
		if err.Error() != last { // it contains the machine's name
			last = err.Error()
			tries++
		}
		if told := Trouble(k.host.Site, site.Groups, "g"); told == nil || told.Error() != last {
			t.Fatalf("told is %v, not %s", told, last)
		}
	}
	if tries < 10 || tries > 20 { // 0, 1, 2, 4 … 32 and 60 seconds apart
		t.Errorf("in ten minutes it was tried %d times", tries)
	}
}

// A machine that cannot be removed may still run: a replacement would have the same
// address and volumes.
func TestAMachineThatCannotBeRemovedIsNotReplaced(t *testing.T) {
	k, now := newDiskKeeper(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	obstacle := k.host.Path(site.Registry, "g-1.json", "in-the-way")
	record, err := json.Marshal(machine.Machine{Name: "g-1", Group: "g", Address: "10.77.0.10", Created: now.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{obstacle: nil, k.host.Path(site.Machines, "g-1", "machine.json"): record} {
		if err := site.Write(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	groups := []Group{{Name: "g", Size: 1, Image: "/no/such/image"}}
	for range 2 {
		err := k.reconcileGroups(t.Context(), cidr(), groups, now)
		if err == nil || !strings.Contains(err.Error(), "delete the machine g-1") || strings.Contains(err.Error(), "image") {
			t.Fatalf("the error is %v", err)
		}
		if told := Trouble(k.host.Site, site.Groups, "g"); told == nil || !strings.Contains(told.Error(), "delete the machine g-1") {
			t.Errorf("told is %v", told)
		}
	}
	if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
		t.Fatal(err)
	}
	if err := k.reconcileGroups(t.Context(), cidr(), groups, now); err == nil || !strings.Contains(err.Error(), "/no/such/image") {
		t.Errorf("once it is removed another is to be made: %v", err)
	}
}

// The same trouble is always reported in the same words, so that the keeper recognizes what it
// has reported already.
func TestTroubleOfManyGroupsIsReportedInOneOrder(t *testing.T) {
	k, now := newDiskKeeper(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, group := range []string{"a", "b", "c"} { // none of them is desired
		record, err := json.Marshal(machine.Machine{Name: group + "-1", Group: group, Address: "10.77.0.10", Created: now.Add(-time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{
			k.host.Path(site.Registry, group+"-1.json", "in-the-way"): nil, k.host.Path(site.Machines, group+"-1", "machine.json"): record,
		} {
			if err := site.Write(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := k.reconcileGroups(t.Context(), cidr(), nil, now)
	for range 20 {
		if err := k.reconcileGroups(t.Context(), cidr(), nil, now); first == nil || err == nil || err.Error() != first.Error() {
			t.Fatalf("the error is\n%v\nand was\n%v", err, first)
		}
	}
}

// A keeper that starts after its cluster was deleted leaves nothing behind.
func TestAKeeperWithoutAClusterLeavesNothing(t *testing.T) {
	k := newDiskKeeper(t)
	for _, file := range []string{lockFile(k.host.Site), pidFile(k.host.Site), LogFile(k.host.Site)} {
		if err := site.Write(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.loop(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(k.host.Root); err == nil {
		t.Errorf("left are %v", left)
	}
}

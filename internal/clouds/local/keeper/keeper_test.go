package keeper

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/clouds/local/machine"
)

func TestTemplateIsOfEverythingButTheSize(t *testing.T) {
	g := Group{Name: "nodes", Size: 1, Image: "/i", MemoryMiB: 1024, UserData: "#!", Labels: map[string]string{"a": "b"}}
	other := g
	other.Size = 7
	if g.Template() != other.Template() {
		t.Error("the size is part of the template")
	}
	for name, change := range map[string]func(*Group){
		"image": func(g *Group) { g.Image = "/j" }, "memory": func(g *Group) { g.MemoryMiB = 1 }, "user data": func(g *Group) { g.UserData = "#!x" },
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
		{"then the youngest", []machine.Machine{m("a", "g", is, time.Minute, true), m("b", "g", is, time.Hour, true), m("c", "g", is, time.Second, true)}, []string{"c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &keeper{log: slog.New(slog.DiscardHandler), pauses: map[string]pause{}}
			var got []string
			for _, x := range k.surplus(c.machines, map[string]Group{"g": g}, now) {
				got = append(got, x.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, not %v", got, c.want)
			}
		})
	}
}

func TestMachinesThatDieYoungMakeTheirGroupWait(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := &keeper{log: slog.New(slog.DiscardHandler), pauses: map[string]pause{}}
	dead := machine.Machine{Name: "a", Group: "g", Created: now.Add(-time.Second)}
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		k.died(dead, now)
		if got := k.pauses["g"].until.Sub(now); got != want {
			t.Errorf("after death %d the group waits %s, not %s", i+1, got, want)
		}
	}
	for range 20 {
		k.died(dead, now)
	}
	if got := k.pauses["g"].until.Sub(now); got != longWait {
		t.Errorf("the longest wait is %s", got)
	}
	dead.Created = now.Add(-time.Hour)
	k.died(dead, now)
	if _, waits := k.pauses["g"]; waits {
		t.Error("the death of an old machine makes its group wait")
	}
}

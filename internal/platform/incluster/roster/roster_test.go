package roster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster/roster"
)

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// node returns a node that was created age before noon.
func node(name string, age time.Duration) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of " + name), CreationTimestamp: metav1.NewTime(noon().Add(-age))}}
}

// controlPlane returns a node of the control plane that is ready or not.
func controlPlane(name string, age time.Duration, ready corev1.ConditionStatus) *corev1.Node {
	n := node(name, age)
	n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func machine(name string, state roster.State) roster.Machine {
	return roster.Machine{ID: "id-" + name, Node: name, State: state}
}

func TestWhichMachinesAreGone(t *testing.T) {
	self, down := machine("self", roster.Running), errors.New("the platform is down")
	created := machine("again", roster.Running)
	created.Created = noon().Add(-time.Hour)
	list := func(machines ...roster.Machine) func(context.Context, []string) ([]roster.Machine, error) {
		return func(context.Context, []string) ([]roster.Machine, error) { return machines, nil }
	}
	for name, tt := range map[string]struct {
		r     roster.Roster
		nodes []*corev1.Node
		want  []string
		says  string
	}{
		"in every state": {r: roster.Roster{List: list(self, machine("up", roster.Running), machine("new", roster.Starting), machine("off", roster.Stopped), machine("over", roster.Ended))},
			nodes: []*corev1.Node{node("up", 0), node("new", 0), node("off", 0), node("over", 0), node("absent", 0)}, want: []string{"over", "absent"}},
		"without this machine":              {r: roster.Roster{Source: "the list", List: list(machine("up", roster.Running))}, nodes: []*corev1.Node{node("up", 0)}, says: "the list lacks self, where this runs, so it is ignored"},
		"in which this machine has stopped": {r: roster.Roster{List: list(machine("self", roster.Stopped))}, nodes: []*corev1.Node{node("up", 0)}, says: "lacks self"},
		"in which this machine only starts": {r: roster.Roster{List: list(machine("self", roster.Starting))}, nodes: []*corev1.Node{node("up", 0)}, says: "lacks self"},
		"that cannot be read": {r: roster.Roster{List: func(context.Context, []string) ([]roster.Machine, error) { return nil, down }},
			nodes: []*corev1.Node{node("up", 0)}, says: down.Error()},
		"with the successor of a node's machine": {r: roster.Roster{List: list(self, created)}, nodes: []*corev1.Node{node("again", 2*time.Hour)}, want: []string{"again"}},
		"with a node's own machine":              {r: roster.Roster{List: list(self, created)}, nodes: []*corev1.Node{node("again", time.Hour)}},
		"with the successor of a server": {r: roster.Roster{List: list(self, created)}, want: []string{"again"},
			nodes: []*corev1.Node{controlPlane("again", 2*time.Hour, corev1.ConditionUnknown)}},
		"with the successor of a server, which has joined": {r: roster.Roster{List: list(self, created)}, nodes: []*corev1.Node{controlPlane("again", 2*time.Hour, corev1.ConditionTrue)}},
		"that does not include every node": {r: roster.Roster{List: list(self), Judges: func(n *corev1.Node) bool { return n.Name != "foreign" }},
			nodes: []*corev1.Node{node("foreign", 0), node("absent", 0)}, want: []string{"absent"}},
		"that is not complete": {r: roster.Roster{List: list(self), IsUnknown: func(_ context.Context, n *corev1.Node) (bool, error) { return n.Name == "absent", nil }},
			nodes: []*corev1.Node{node("hidden", 0), node("absent", 0)}, want: []string{"absent"}},
		"that cannot be completed": {r: roster.Roster{List: list(self), IsUnknown: func(context.Context, *corev1.Node) (bool, error) { return true, down }},
			nodes: []*corev1.Node{node("absent", 0)}, says: down.Error()},
	} {
		tt.r.Self = "self"
		got, err := tt.r.ListTerminated(t.Context(), tt.nodes)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("by a list %s gone are %v, %v", name, got, err)
		}
	}
}

// TestAnEndedMachineDoesNotHideItsSuccessor lists both machines of a name, in either order.
func TestAnEndedMachineDoesNotHideItsSuccessor(t *testing.T) {
	over, again := machine("n", roster.Ended), machine("n", roster.Running)
	over.Created, again.Created = noon().Add(-2*time.Hour), noon().Add(-time.Hour)
	off := over
	off.State = roster.Stopped
	for _, all := range [][]roster.Machine{{over, again}, {again, over}, {off, again}, {again, off}} {
		for age, want := range map[time.Duration][]string{30 * time.Minute: nil, 90 * time.Minute: {"n"}} {
			r := roster.Roster{Self: "self", List: func(context.Context, []string) ([]roster.Machine, error) {
				return append(slices.Clone(all), machine("self", roster.Running)), nil
			}}
			if got, err := r.ListTerminated(t.Context(), []*corev1.Node{node("n", age)}); err != nil || !slices.Equal(got, want) {
				t.Errorf("of a node that is %s old, by a list that begins with the one that is %s, gone are %v, %v", age, all[0].State, got, err)
			}
		}
	}
}

// TestTheClockOfThePlatformMayBeWrong has a node that seems to be older than its machine.
func TestTheClockOfThePlatformMayBeWrong(t *testing.T) {
	m, n := machine("n", roster.Running), node("n", time.Hour)
	m.Created, m.ProviderID = noon(), "cloud://1"
	for id, isGone := range map[string]bool{"cloud://1": false, "cloud://0": true, "": true} {
		for _, keeps := range []bool{false, true} {
			m.KeepsName, n.Spec.ProviderID = keeps, id
			r := roster.Roster{Self: "self", List: func(context.Context, []string) ([]roster.Machine, error) {
				return []roster.Machine{m, machine("self", roster.Running)}, nil
			}}
			if got, err := r.ListTerminated(t.Context(), []*corev1.Node{n}); err != nil || (len(got) == 1) != (isGone || keeps) {
				t.Errorf("a node that reports %q (the machine keeps its name: %t) is gone: %v, %v", id, keeps, got, err)
			}
		}
	}
}

func TestAMissingMachineIsGoneAfterAWhile(t *testing.T) {
	now, all := noon(), []roster.Machine{machine("self", roster.Running)}
	r := roster.Roster{Self: "self", Grace: time.Minute, Now: func() time.Time { return now }, List: func(context.Context, []string) ([]roster.Machine, error) { return all, nil }}
	gone := func(what string, want ...string) {
		t.Helper()
		if got, err := r.ListTerminated(t.Context(), []*corev1.Node{node("new", 0)}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s gone are %v, %v", what, got, err)
		}
	}
	gone("at first")
	now = now.Add(time.Minute - 1)
	gone("a moment before the end")
	all = append(all, machine("new", roster.Running))
	now = now.Add(time.Second)
	gone("when it is listed")
	all = all[:1]
	gone("when it is missing again")
	now = now.Add(time.Minute)
	gone("at last", "new")
	gone("as long as the node is there", "new")
}

func TestNamesAreAskedForInBatches(t *testing.T) {
	var asked []string
	lacks := ""
	r := roster.Roster{Self: "self", Batch: 3, Reuses: func(n string) bool { return n != "id" }, List: func(_ context.Context, nodes []string) ([]roster.Machine, error) {
		asked = append(asked, strings.Join(nodes, " "))
		var out []roster.Machine
		for _, n := range nodes {
			if n != "absent" && (n != "self" || nodes[0] != lacks) {
				out = append(out, machine(n, roster.Running))
			}
		}
		return out, nil
	}}
	if got, err := r.ListExisting(t.Context(), []string{"a", "b", "id", "absent"}); err != nil || !slices.Equal(got, []string{"a", "b"}) || !slices.Equal(asked, []string{"a b self", "absent self"}) {
		t.Errorf("there are %v, %v, by the questions %v", got, err, asked)
	}
	lacks = "absent"
	if got, err := r.ListExisting(t.Context(), []string{"a", "b", "absent"}); err == nil || got != nil {
		t.Errorf("by an answer without this machine, there are %v", got)
	}
	asked = nil
	if got, err := r.ListExisting(t.Context(), []string{"id"}); err != nil || got != nil || asked != nil {
		t.Errorf("of names that are never used again, there are %v, %v, by the questions %v", got, err, asked)
	}
}

func TestOnlyMachinesOfGroupsCanBeReplaced(t *testing.T) {
	var all []roster.Machine
	for _, state := range []roster.State{roster.Starting, roster.Running, roster.Stopped, roster.Ended} {
		m := machine(string(state), state)
		m.Group, m.Created, m.KeepsName = "nodes", noon(), true
		all = append(all, m)
	}
	got := roster.Fleet(append(all, machine("alone", roster.Running)))
	want := []controller.FleetMachine{{Name: "id-starting", Node: "starting", Group: "nodes", Created: noon(), KeepsName: true}, {Name: "id-running", Node: "running", Group: "nodes", Created: noon(), KeepsName: true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// cloud is a platform with a list of machines and their words for it.
type cloud struct {
	all   []roster.Listed[string]
	loads int
	fails error
}

func (c *cloud) list(now func() time.Time) *roster.List[string] {
	return &roster.List[string]{Now: now, Load: func(context.Context) ([]roster.Listed[string], error) {
		c.loads++
		return c.all, c.fails
	}}
}

func TestTheGroupOfANode(t *testing.T) {
	listed := roster.Listed[string]{Machine: machine("n", roster.Running), Own: "own"}
	listed.Group, listed.ProviderID, listed.Place, listed.Status = "nodes", "cloud://n", "here", "up"
	with := func(change func(*roster.Listed[string])) []roster.Listed[string] {
		m := listed
		change(&m)
		return []roster.Listed[string]{m}
	}
	reports := func(id string) *corev1.Node {
		n := node("n", 0)
		n.Spec.ProviderID = id
		return n
	}
	confirm := func(group string, err error) func(context.Context, string) (string, error) {
		return func(_ context.Context, own string) (string, error) {
			if own != "own" {
				return "", fmt.Errorf("asked about %s", own)
			}
			return group, err
		}
	}
	for name, tt := range map[string]struct {
		all     []roster.Listed[string]
		node    *corev1.Node
		confirm func(context.Context, string) (string, error)
		class   fault.Class
		says    string
	}{
		"without a provider ID":    {node: node("n", 0)},
		"with its provider ID":     {node: reports("cloud://n")},
		"with another's":           {node: reports("cloud://m"), class: fault.Gone, says: "reports the machine cloud://m, but its machine is cloud://n"},
		"without a machine":        {node: node("m", 0), class: fault.Gone, says: "the cluster has no machine m"},
		"of a stopped machine":     {all: with(func(m *roster.Listed[string]) { m.State, m.Status = roster.Stopped, "OFF" }), node: node("n", 0), class: fault.NotYet, says: "its status is OFF"},
		"of no group":              {all: with(func(m *roster.Listed[string]) { m.Group = "" }), node: node("n", 0), class: fault.Gone, says: "belongs to no group"},
		"of two machines":          {all: append(with(func(m *roster.Listed[string]) { m.Place = "there" }), listed), node: node("n", 0), class: fault.Conflict, says: "exist in both there and here"},
		"whose group is confirmed": {node: node("n", 0), confirm: confirm("nodes", nil)},
		"that claims a group":      {node: node("n", 0), confirm: confirm("others", nil), class: fault.Gone, says: `claims to be in the instance group "nodes", but is in others`},
		"of an unknown group":      {node: node("n", 0), confirm: confirm("", fault.New(fault.NotYet, "later")), class: fault.NotYet, says: "find the group of the machine n: later"},
	} {
		c := cloud{all: []roster.Listed[string]{listed}}
		if tt.all != nil {
			c.all = tt.all
		}
		groups := roster.Groups[string]{List: c.list(noon), Confirm: tt.confirm}
		got, err := groups.GroupOf(t.Context(), tt.node)
		if fault.Of(err) != tt.class || err == nil && got != "nodes" || err != nil && (got != "" || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("a node %s is in %q, %v", name, got, err)
		}
	}
}

func TestListsAndGroupsAreCached(t *testing.T) {
	now, confirmed := noon(), 0
	c := &cloud{all: []roster.Listed[string]{{Machine: machine("n", roster.Running)}}}
	c.all[0].Group = "nodes"
	list := c.list(func() time.Time { return now })
	groups := roster.Groups[string]{List: list, Confirm: func(context.Context, string) (string, error) { confirmed++; return "nodes", nil }}
	ask := func(n *corev1.Node, loads, confirms int) {
		t.Helper()
		if got, err := groups.GroupOf(t.Context(), n); err == nil != (n.Name == "n") || got != c.all[0].Group && err == nil || c.loads != loads || confirmed != confirms {
			t.Errorf("%s is in %q, %v, after %d lists and %d questions", n.Name, got, err, c.loads, confirmed)
		}
	}
	ask(node("n", 0), 1, 1)
	now = now.Add(roster.Remembered - 1)
	ask(node("n", 0), 1, 1)
	ask(node("absent", 0), 2, 1) // a fresh list is needed
	ask(node("absent", 0), 2, 1)
	again := node("n", 0)
	again.UID = "another node's"
	ask(again, 2, 2)
	now = now.Add(roster.Recent)
	if got, err := list.Machines(t.Context()); err != nil || len(got) != 1 || c.loads != 3 {
		t.Errorf("after %d lists there are %v, %v", c.loads, got, err)
	}
	now, c.fails = now.Add(roster.Recent), fault.New(fault.Throttled, "too fast")
	if got, err := list.Machines(t.Context()); !fault.Is(err, fault.Throttled) || got != nil {
		t.Errorf("an old list is believed: %v, %v", got, err)
	}
}

func TestTheMachineToCall(t *testing.T) {
	one := machine("one", roster.Starting)
	one.Cluster, one.Group, one.Addresses, one.Names = "c", "nodes", []string{"10.0.0.1"}, []string{"one"}
	l := &roster.List[int]{Now: noon, Load: func(context.Context) ([]roster.Listed[int], error) {
		return []roster.Listed[int]{{Machine: machine("off", roster.Stopped)}, {Machine: one}, {Machine: machine("up", roster.Running)}}, nil
	}}
	for id, want := range map[string]string{"id-one": "{one nodes c true [10.0.0.1] [one]}", "id-off": "{off   false [] []}", "id-up": "{up   true [] []}"} {
		got, err := l.Call(t.Context(), id)
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: got %v, %v", id, got, err)
		}
	}
	if _, err := l.Call(t.Context(), "one"); !fault.Is(err, fault.Gone) {
		t.Errorf("of none: %v", err)
	}
	down := errors.New("down")
	l = &roster.List[int]{Now: noon, Load: func(context.Context) ([]roster.Listed[int], error) { return nil, down }}
	if _, err := l.Call(t.Context(), "id-one"); !errors.Is(err, down) {
		t.Errorf("without a list: %v", err)
	}
}

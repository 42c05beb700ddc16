package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"kops.local/kops/internal/contract/controllerconfig"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// parseFleet returns a small cluster from a description: NAME=STATE, where the state is ready,
// how long ago the node stopped reporting ("6m"), or how long ago a machine without a node
// was created ("none 11m").
func parseFleet(t *testing.T, group, text string) (machines []FleetMachine, nodes map[string]*corev1.Node) {
	t.Helper()
	nodes = map[string]*corev1.Node{}
	for i, word := range strings.Split(text, ",") {
		m := FleetMachine{Name: fmt.Sprintf("%s-%d", group, i), Node: fmt.Sprintf("%s-%d", group, i), Group: group, Created: noon.Add(-time.Hour)}
		state := strings.Fields(word)
		ago := func(s string) time.Time {
			d, err := time.ParseDuration(s)
			if err != nil {
				t.Fatal(err)
			}
			return noon.Add(-d)
		}
		c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}
		switch {
		case state[0] == "none":
			m.Created = ago(state[1])
		case state[0] != "ready":
			c.Status, c.Message, c.LastTransitionTime = corev1.ConditionUnknown, "Kubelet stopped posting node status.", metav1.NewTime(ago(state[0]))
			fallthrough
		default:
			nodes[m.Node] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Node, CreationTimestamp: metav1.NewTime(m.Created)}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c}}}
		}
		machines = append(machines, m)
	}
	return machines, nodes
}

func TestDeadMachinesAreReplacedWithinBounds(t *testing.T) {
	part := intstr.FromString("50%")
	for _, tt := range []struct {
		name, machines string
		policy         controllerconfig.Repair
		want           []string
		alone          string
	}{
		{name: "all are well", machines: "ready,ready,ready"},
		{name: "one is silent for long", machines: "ready,6m,ready", want: []string{"g-1"}},
		{name: "one is silent for a moment", machines: "ready,4m,ready"},
		{name: "one did not join for long", machines: "ready,ready,none 11m", want: []string{"g-2"}},
		{name: "one is joining", machines: "ready,ready,none 9m"},
		{name: "the second waits until the first is replaced", machines: "ready,6m,none 1m", alone: "2 of 3 machines are dead"},
		{name: "the only one", machines: "6m", want: []string{"g-0"}},
		{name: "half may be dead", machines: "9m,6m,ready,ready", policy: controllerconfig.Repair{MaxUnhealthy: &part}, want: []string{"g-0", "g-1"}},
		{name: "more than half are dead", machines: "9m,6m,1m,ready", policy: controllerconfig.Repair{MaxUnhealthy: &part}, alone: "3 of 4 machines are dead"},
		{name: "one of three control planes", machines: "ready,6m,ready", policy: controllerconfig.Repair{ControlPlane: true}, want: []string{"g-1"}},
		{name: "two of three control planes", machines: "6m,ready,10s", policy: controllerconfig.Repair{ControlPlane: true, MaxUnhealthy: &part}, alone: "might lose its majority"},
		{name: "one of two control planes", machines: "6m,ready", policy: controllerconfig.Repair{ControlPlane: true}, alone: "might lose its majority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machines, nodes := parseFleet(t, "g", tt.machines)
			others, more := parseFleet(t, "other", "9m,9m,9m") // a group without a policy is left alone
			for name, n := range more {
				nodes[name] = n
			}
			tt.policy.After.Duration = 5 * time.Minute
			due, alone := selectUnhealthy(map[string]controllerconfig.Repair{"g": tt.policy}, append(others, machines...), nodes, noon)
			var got []string
			for _, p := range due {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !strings.Contains(alone["g"], tt.alone) || tt.alone == "" && len(alone) > 0 {
				t.Errorf("told %q, want %q", alone, tt.alone)
			}
		})
	}
}

// fakeFleet is a fleet whose machines are only listed. It fails if err is set.
type fakeFleet struct {
	machines []FleetMachine
	replaced []string
	err      error
}

func (g *fakeFleet) List(context.Context) ([]FleetMachine, error) { return g.machines, g.err }
func (g *fakeFleet) Serving(_ context.Context, all []FleetMachine) ([]FleetMachine, error) {
	return slices.DeleteFunc(all, func(m FleetMachine) bool { return strings.HasSuffix(m.Name, "-reserve") }), nil
}
func (g *fakeFleet) Replace(_ context.Context, m FleetMachine) error {
	g.replaced = append(g.replaced, m.Name)
	return nil
}

// TestAMachineIsReplacedWhenItIsFoundDeadForLong checks that one finding is not enough, and that
// a machine in a warm pool needs no node.
func TestAMachineIsReplacedWhenItIsFoundDeadForLong(t *testing.T) {
	machines, nodes := parseFleet(t, "g", "ready,6m,ready")
	client := fake.NewClientset()
	for _, n := range nodes {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	g := &fakeFleet{machines: append(machines, FleetMachine{Name: "g-reserve", Node: "g-reserve", Group: "g", Created: noon.Add(-time.Hour)})}
	r := &Repair{Nodes: client.CoreV1().Nodes(), Fleet: g, Log: slog.New(slog.DiscardHandler),
		Groups: fixedPolicies(map[string]controllerconfig.Repair{"g": {After: metav1.Duration{Duration: 5 * time.Minute}}})}
	at := func(d time.Duration) {
		t.Helper()
		r.Clock = stoppedClock(noon.Add(d))
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at(0)
	at(30 * time.Second)
	if len(g.replaced) > 0 {
		t.Fatalf("replaced too soon: %v", g.replaced)
	}
	at(time.Minute)
	if !slices.Equal(g.replaced, []string{"g-1"}) {
		t.Errorf("replaced %v", g.replaced)
	}
	g.err = errors.New("no such folder")
	if err := r.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("a list that cannot be had: %v", err)
	}
}

// TestTheNodeOfAMachineGoesFirstWhereTheNextHasItsName checks this because nothing that the
// old node states is true of the replacement.
func TestTheNodeOfAMachineGoesFirstWhereTheNextHasItsName(t *testing.T) {
	machines, nodes := parseFleet(t, "g", "ready,6m,ready")
	client := fake.NewClientset()
	for _, n := range nodes {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range machines {
		machines[i].KeepsName = true
	}
	refuse := true
	client.PrependReactor("delete", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		return refuse, nil, errors.New("not allowed")
	})
	g := &fakeFleet{machines: machines}
	r := &Repair{Nodes: client.CoreV1().Nodes(), Fleet: g, Log: slog.New(slog.DiscardHandler), Clock: stoppedClock(noon),
		Groups: fixedPolicies(map[string]controllerconfig.Repair{"g": {After: metav1.Duration{Duration: 5 * time.Minute}}})}
	if err := r.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Clock = stoppedClock(noon.Add(time.Minute))
	if err := r.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the node g-1: not allowed") || len(g.replaced) > 0 {
		t.Errorf("with a node that stays %v are replaced, %v", g.replaced, err)
	}
	refuse = false
	if err := r.Once(t.Context()); err != nil || !slices.Equal(g.replaced, []string{"g-1"}) {
		t.Errorf("replaced %v, %v", g.replaced, err)
	}
	left, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 2 {
		t.Errorf("left are %d nodes, %v", len(left.Items), err)
	}
}

// fixedPolicies returns policies that do not change.
func fixedPolicies(groups map[string]controllerconfig.Repair) func() (map[string]controllerconfig.Repair, error) {
	return func() (map[string]controllerconfig.Repair, error) { return groups, nil }
}

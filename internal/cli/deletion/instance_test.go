package deletion

import (
	"slices"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api/status"
)

// TestDeletionOfAMachineIsReported checks the preview: what is done to the machine, in which order,
// and what replaces it.
func TestDeletionOfAMachineIsReported(t *testing.T) {
	const detached, moved, terminated, another = "it is detached: its group creates another, and it serves until the other is ready",
		"it is cordoned, leaves the load balancers, and its pods are evicted within their disruption budgets", "it is terminated", "its group creates another machine"
	node := status.RolloutMachine{Name: "i-1", Node: "a", Effect: "replace", Phase: "pending"}
	with := func(change func(*status.RolloutMachine)) status.RolloutMachine {
		m := node
		change(&m)
		return m
	}
	surge := status.PlannedRoll{SurgesFirst: true}
	for name, c := range map[string]struct {
		g    status.PlannedRoll
		m    status.RolloutMachine
		o    kops.RolloutOptions
		want []string
	}{
		"with a surge":      {surge, node, kops.RolloutOptions{}, []string{detached, moved, terminated}},
		"without":           {status.PlannedRoll{}, node, kops.RolloutOptions{}, []string{moved, terminated, another}},
		"detached before":   {surge, with(func(m *status.RolloutMachine) { m.Phase = "surged" }), kops.RolloutOptions{}, []string{moved, terminated, "another machine has replaced it, or is being created"}},
		"by the cloud only": {status.PlannedRoll{}, node, kops.RolloutOptions{CloudOnly: true}, []string{"it is terminated together with its pods", another}},
		"no node": {status.PlannedRoll{}, with(func(m *status.RolloutMachine) { m.Node = "" }), kops.RolloutOptions{},
			[]string{"it leaves the load balancers and is terminated; it is not a node and has no pods", another}},
		"in place": {status.PlannedRoll{}, with(func(m *status.RolloutMachine) { m.Effect = "restart" }), kops.RolloutOptions{},
			[]string{"it applies its configuration in place and restarts the components that change; no machine replaces it"}},
		"detached only": {status.PlannedRoll{SurgesFirst: true, Stays: true}, node, kops.RolloutOptions{},
			[]string{"it is detached: its group creates another, and it keeps serving, because spec.rollingUpdate.drainAndTerminate is false"}},
	} {
		if got := steps(c.g, c.m, c.o); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

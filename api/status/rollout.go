package status

import "time"

// Rollout is the replacement, or the restart in place, of the machines of a cluster.
type Rollout struct {
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	// Ended is zero while it is under way, or waits for somebody to continue it.
	Ended time.Time `json:"ended,omitzero"`
	// Driver says in a sentence who drives it; empty when nobody does.
	Driver  string `json:"driver,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	Aborted bool   `json:"aborted,omitempty"`
	// Stopped says why nothing more is begun; empty when nothing stopped it.
	Stopped string `json:"stopped,omitempty"`
	// Declined says that the user chose not to continue.
	Declined bool           `json:"declined,omitempty"`
	Groups   []RolloutGroup `json:"groups"`
	// Baseline are the failures that were there before, which stop nothing.
	Baseline  []Failure  `json:"baseline,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

// Done counts the machines that are replaced or restarted, and all machines of the rollout.
func (r *Rollout) Done() (done, all int) {
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			all++
			if m.Phase == "done" {
				done++
			}
		}
	}
	return done, all
}

// RolloutGroup is an instance group in a rollout.
type RolloutGroup struct {
	Name string `json:"name"`
	Role string `json:"role"`
	// Surge and Unavailable are how many machines more and fewer there may be.
	Surge       int              `json:"surge"`
	Unavailable int              `json:"unavailable"`
	Machines    []RolloutMachine `json:"machines"`
	// Waits says what the group waits for, and Stopped why nothing more of it is begun.
	Waits   string `json:"waits,omitempty"`
	Stopped string `json:"stopped,omitempty"`
	// Revision is the number of the change to roll back to, because the first machine failed; 0 if
	// it did not fail, or no such change is known.
	Revision int `json:"revision,omitempty"`
}

// RolloutMachine is a machine in a rollout.
type RolloutMachine struct {
	Name string `json:"name"`
	// Node is its node's name; empty if it has no node.
	Node string `json:"node,omitempty"`
	// Effect is replace or restart, and Reasons are why.
	Effect  string   `json:"effect"`
	Reasons []string `json:"reasons,omitempty"`
	// Phase is how far it has come: pending, surged, joined, soaking, cordoned, draining,
	// restarting, gone, and at the end done or kept.
	Phase string    `json:"phase"`
	Since time.Time `json:"since,omitzero"`
	// Successor is the machine in its place, once it exists.
	Successor string `json:"successor,omitempty"`
	// Blockers keep it from being drained, and Trouble is what went wrong last.
	Blockers []string `json:"blockers,omitempty"`
	Trouble  string   `json:"trouble,omitempty"`
	// Lacks says what keeps its successor from being there, or from being ready; empty where
	// nothing is known.
	Lacks string `json:"lacks,omitempty"`
}

// Question is what the user of a rollout is asked.
type Question struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Choices are the possible answers; the first is the usual one.
	Choices []string `json:"choices"`
	Group   string   `json:"group,omitempty"`
	Machine string   `json:"machine,omitempty"`
}

// RolloutPlan is what a rollout will do.
type RolloutPlan struct {
	Cluster string        `json:"cluster"`
	Groups  []PlannedRoll `json:"groups"`
	// Blockers are what the drains will meet.
	Blockers []Blocker `json:"blockers,omitempty"`
	// Shortages are the groups that lack room for the machines that come before others go.
	Shortages []Shortage `json:"shortages,omitempty"`
	// Baseline are the failures that are there now, which stop nothing.
	Baseline []Failure `json:"baseline,omitempty"`
	// About is how long it will take, about (nanoseconds).
	About time.Duration `json:"about,omitempty"`
	// Unfinished is an earlier rollout, which is continued instead.
	Unfinished *Rollout `json:"unfinished,omitempty"`
}

// Machines counts those that are replaced or restarted.
func (p *RolloutPlan) Machines() int {
	n := 0
	for _, g := range p.Groups {
		n += len(g.Machines)
	}
	return n
}

// PlannedRoll is what a rollout will do to an instance group.
type PlannedRoll struct {
	Name string `json:"name"`
	Role string `json:"role"`
	// Status is Ready or NeedsUpdate.
	Status     string `json:"status"`
	NeedUpdate int    `json:"needUpdate"`
	Ready      int    `json:"ready"`
	Min        int    `json:"min"`
	Target     int    `json:"target"`
	Max        int    `json:"max"`
	// Nodes is how many nodes it has.
	Nodes       int `json:"nodes"`
	Surge       int `json:"surge"`
	Unavailable int `json:"unavailable"`
	// SurgesFirst says that the successor of the first machine comes before that goes, and
	// Stays that nothing is drained or terminated then (drainAndTerminate: false).
	SurgesFirst bool `json:"surgesFirst,omitempty"`
	Stays       bool `json:"stays,omitempty"`
	// Machines are those that are replaced or restarted.
	Machines []RolloutMachine `json:"machines,omitempty"`
}

// Shortage says that there is not room for all machines that a group is to have for a while.
type Shortage struct {
	Group   string `json:"group"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Blocker is what a drain will meet.
type Blocker struct {
	// Kind is budget, local, unmanaged or grace.
	Kind string `json:"kind"`
	// Name is the name of the budget or the pod, as namespace/name.
	Name string `json:"name"`
	// Pods are those that a budget keeps, and Nodes where they run.
	Pods    []string `json:"pods,omitempty"`
	Nodes   []string `json:"nodes"`
	Message string   `json:"message"`
	Remedy  string   `json:"remedy,omitempty"`
	// Blocks says that no drain ends while this is so.
	Blocks bool `json:"blocks"`
}

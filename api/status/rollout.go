package status

import "time"

// Rollout is the replacement, or the restart in place, of the machines of a cluster.
type Rollout struct {
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	// Ended is zero while it is in progress, or waits for someone to continue it.
	Ended time.Time `json:"ended,omitzero"`
	// Driver describes in a sentence the process that drives it; empty if there is none.
	Driver  string `json:"driver,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	Aborted bool   `json:"aborted,omitempty"`
	// Stopped is the reason why nothing more is begun; empty if nothing stopped it.
	Stopped string `json:"stopped,omitempty"`
	// Declined means that the user chose not to continue.
	Declined bool           `json:"declined,omitempty"`
	Groups   []RolloutGroup `json:"groups"`
	// Baseline are the failures that existed before, which do not stop it.
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
	// Surge and Unavailable are the allowed numbers of machines above and below its size.
	Surge       int              `json:"surge"`
	Unavailable int              `json:"unavailable"`
	Machines    []RolloutMachine `json:"machines"`
	// Waits is what the group waits for, and Stopped why nothing more of it is begun.
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
	// Effect is replace or restart, and Reasons are the reasons for it.
	Effect  string   `json:"effect"`
	Reasons []string `json:"reasons,omitempty"`
	// Phase is its progress: pending, surged, joined, soaking, cordoned, draining,
	// restarting, gone, and finally done or kept.
	Phase string    `json:"phase"`
	Since time.Time `json:"since,omitzero"`
	// Successor is the machine that replaces it, once it exists.
	Successor string `json:"successor,omitempty"`
	// Blockers prevent it from being drained, and Trouble is the last problem.
	Blockers []string `json:"blockers,omitempty"`
	Trouble  string   `json:"trouble,omitempty"`
	// Lacks is what prevents its successor from existing, or from being ready; empty if
	// unknown.
	Lacks string `json:"lacks,omitempty"`
}

// Question is a question to the user of a rollout.
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
	// Blockers are what the drains will encounter.
	Blockers []Blocker `json:"blockers,omitempty"`
	// Shortages are the groups without room for the machines that are created before others are removed.
	Shortages []Shortage `json:"shortages,omitempty"`
	// Baseline are the failures that exist now, which do not stop it.
	Baseline []Failure `json:"baseline,omitempty"`
	// About is approximately how long it will take (nanoseconds).
	About time.Duration `json:"about,omitempty"`
	// Unfinished is an earlier rollout, which is continued instead.
	Unfinished *Rollout `json:"unfinished,omitempty"`
}

// Machines returns how many machines are replaced or restarted.
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
	// Nodes is its number of nodes.
	Nodes       int `json:"nodes"`
	Surge       int `json:"surge"`
	Unavailable int `json:"unavailable"`
	// SurgesFirst means that the successor of the first machine is created before that machine is removed,
	// and Stays that nothing is drained or terminated then (drainAndTerminate: false).
	SurgesFirst bool `json:"surgesFirst,omitempty"`
	Stays       bool `json:"stays,omitempty"`
	// Machines are the machines to replace or restart.
	Machines []RolloutMachine `json:"machines,omitempty"`
}

// Shortage means that there is no room for all machines that a group temporarily needs.
type Shortage struct {
	Group   string `json:"group"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Blocker is an obstacle to a drain.
type Blocker struct {
	// Kind is budget, local, unmanaged or grace.
	Kind string `json:"kind"`
	// Name is the name of the budget or the pod, as namespace/name.
	Name string `json:"name"`
	// Pods are the pods that a budget protects, and Nodes the nodes they run on.
	Pods    []string `json:"pods,omitempty"`
	Nodes   []string `json:"nodes"`
	Message string   `json:"message"`
	Remedy  string   `json:"remedy,omitempty"`
	// Blocks means that no drain can finish while it exists.
	Blocks bool `json:"blocks"`
}

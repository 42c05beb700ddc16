package status

import "time"

// Effect is what must be done to a machine to make it match the spec.
type Effect string

// Effects, in ascending order.
const (
	// NoEffect: machines are not affected.
	NoEffect Effect = "none"
	// Live: applied without touching the machines, such as a node label.
	Live Effect = "live"
	// Restart: applied on the machine, whose programs are restarted.
	Restart Effect = "restart"
	// Replace: each machine is replaced by another.
	Replace Effect = "replace"
)

// Stale reports whether machines must be restarted or replaced.
func (e Effect) Stale() bool { return e == Restart || e == Replace }

// Reason is one difference between a machine and the spec.
type Reason struct {
	// Field is the field of the spec, such as spec.kubelet.maxPods, or a description of the difference.
	Field  string `json:"field"`
	Have   string `json:"have,omitempty"`
	Want   string `json:"want,omitempty"`
	Effect Effect `json:"effect"`
}

// String returns the reason in a few words.
func (r Reason) String() string {
	switch {
	case r.Have == "" && r.Want == "":
		return r.Field
	case r.Have == "":
		return r.Field + " -> " + r.Want
	case r.Want == "":
		return r.Field + " " + r.Have + " -> nothing"
	}
	return r.Field + " " + r.Have + " -> " + r.Want
}

// Instance is a machine of a cluster, and how it differs from the spec.
type Instance struct {
	// Name is the platform's own name, such as the ID of an instance.
	Name string `json:"id"`
	// Node is the name of its node; empty while it has no node or the node is unknown.
	Node string `json:"nodeName,omitempty"`
	// Status is UpToDate, NeedsUpdate or Detached.
	Status string `json:"status"`
	// Roles are the roles of its group.
	Roles       []string  `json:"roles,omitempty"`
	State       string    `json:"state,omitempty"` // the platform's word
	Addresses   []string  `json:"addresses,omitempty"`
	Group       string    `json:"instanceGroup,omitempty"`
	MachineType string    `json:"machineType,omitempty"` // as the platform shows it; empty if unknown
	Zone        string    `json:"zone,omitempty"`
	Version     string    `json:"version,omitempty"` // of its kubelet
	Created     time.Time `json:"created,omitzero"`
	// Effect is the greatest effect of the reasons. If it is restart or replace, the reasons do
	// not include live changes.
	Effect  Effect   `json:"effect"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// Statuses of an Instance.
const (
	UpToDate    = "UpToDate"
	NeedsUpdate = "NeedsUpdate"
	Detached    = "Detached"
)

// Aftermath is what remains to be done to running machines after an update.
type Aftermath struct {
	// Groups are the groups with machines, sorted by name.
	Groups []GroupAftermath `json:"groups"`
	// Restarts and Replaces count the machines to restart and to replace.
	Restarts int `json:"restarts"`
	Replaces int `json:"replaces"`
	// Minutes is approximately how long that takes, at RestartTime and ReplaceTime for each
	// machine, as many at once as the groups' budgets allow.
	Minutes int `json:"minutes"`
	// Unknown is the reason why the required work is unknown; empty if it is known.
	Unknown string `json:"unknown,omitempty"`
}

// ReplaceTime and RestartTime are the assumed durations of replacing and restarting one machine.
const (
	ReplaceTime = 2 * time.Minute
	RestartTime = 30 * time.Second
)

// GroupAftermath is the effect of a change on the machines of a group.
type GroupAftermath struct {
	Group string `json:"instanceGroup"`
	// Effect is the greatest effect among the machines; Machines of Count must be restarted
	// or replaced.
	Effect   Effect `json:"effect"`
	Machines int    `json:"machines"`
	Count    int    `json:"count"`
	// Reasons are the reasons of all its machines, one per field.
	Reasons []Reason `json:"reasons,omitempty"`
}

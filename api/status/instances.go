package status

import "time"

// Effect is what it takes to have a machine do what the spec says.
type Effect string

// Effects, the lesser first.
const (
	// NoEffect: machines are not concerned.
	NoEffect Effect = "none"
	// Live: what runs beside the machines does it, such as a label that is set.
	Live Effect = "live"
	// Restart: it is done on the machine, whose programs are restarted.
	Restart Effect = "restart"
	// Replace: another machine takes the place of each.
	Replace Effect = "replace"
)

// Stale reports whether machines have to be restarted or replaced.
func (e Effect) Stale() bool { return e == Restart || e == Replace }

// Reason is one difference between a machine and what the spec says.
type Reason struct {
	// Field is the spec's, such as spec.kubelet.maxPods, or says in words what differs.
	Field  string `json:"field"`
	Have   string `json:"have,omitempty"`
	Want   string `json:"want,omitempty"`
	Effect Effect `json:"effect"`
}

// String is the reason in a few words.
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

// Instance is a machine of a cluster, and what it is behind in.
type Instance struct {
	// Name is the platform's own, such as the ID of an instance.
	Name string `json:"id"`
	// Node is the name of its node; empty while it has no node or the node is unknown.
	Node string `json:"nodeName,omitempty"`
	// Status is UpToDate, NeedsUpdate or Detached.
	Status string `json:"status"`
	// Roles are those of its group.
	Roles       []string  `json:"roles,omitempty"`
	State       string    `json:"state,omitempty"` // the platform's word
	Addresses   []string  `json:"addresses,omitempty"`
	Group       string    `json:"instanceGroup,omitempty"`
	MachineType string    `json:"machineType,omitempty"` // as the platform shows it; empty when it cannot
	Zone        string    `json:"zone,omitempty"`
	Version     string    `json:"version,omitempty"` // of its kubelet
	Created     time.Time `json:"created,omitzero"`
	// Effect is the greatest of the reasons'. Where it is restart or replace, what is done live
	// is not among them.
	Effect  Effect   `json:"effect"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// Statuses of an Instance.
const (
	UpToDate    = "UpToDate"
	NeedsUpdate = "NeedsUpdate"
	Detached    = "Detached"
)

// Aftermath is what an update leaves to do about machines that run.
type Aftermath struct {
	// Groups are those with machines, in the order of their names.
	Groups []GroupAftermath `json:"groups"`
	// Restarts and Replaces count the machines to restart and to replace.
	Restarts int `json:"restarts"`
	Replaces int `json:"replaces"`
	// Minutes is about how long that takes, at RestartTime and ReplaceTime for each
	// machine, as many at once as the groups' budgets allow.
	Minutes int `json:"minutes"`
	// Unknown says why it is not known what machines need; empty when it is.
	Unknown string `json:"unknown,omitempty"`
}

// ReplaceTime and RestartTime are what replacing and restarting one machine is assumed to take.
const (
	ReplaceTime = 2 * time.Minute
	RestartTime = 30 * time.Second
)

// GroupAftermath is the effect of a change on the machines of a group.
type GroupAftermath struct {
	Group string `json:"instanceGroup"`
	// Effect is the greatest of the machines'; Machines of the Count that there are have one
	// of restart or replace.
	Effect   Effect `json:"effect"`
	Machines int    `json:"machines"`
	Count    int    `json:"count"`
	// Reasons are those of all its machines, each field once.
	Reasons []Reason `json:"reasons,omitempty"`
}

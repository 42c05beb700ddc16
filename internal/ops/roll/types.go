package roll

import (
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
)

// Effect is what is done to a machine.
type Effect string

const (
	// Replace terminates the machine after its pods were moved; another one takes its place.
	Replace Effect = "replace"
	// Restart makes the machine apply its new configuration in place.
	Restart Effect = "restart"
)

// Phase is how far a machine's replacement or restart has come.
//
// With surge: pending, surged, joined, soaking, cordoned, draining, gone, done. Without: pending,
// cordoned, draining, gone, joined, soaking, done. In place: pending, (cordoned, draining,)
// restarting, soaking, done. Joined and soaking are about the successor, which after a restart is
// the machine itself.
type Phase string

const (
	// Pending machines were not begun yet.
	Pending Phase = "pending"
	// Surged: its group no longer counts it, and creates its successor; it continues to serve.
	Surged Phase = "surged"
	// Joined: the successor exists; its node is not ready yet, or does not exist.
	Joined Phase = "joined"
	// Soaking: the successor's node is ready, and must stay so for Options.Soak.
	Soaking Phase = "soaking"
	// Cordoned: no new pods; it leaves the load balancers.
	Cordoned Phase = "cordoned"
	// Draining: its pods are evicted, and then it is terminated.
	Draining Phase = "draining"
	// Gone: it was terminated.
	Gone Phase = "gone"
	// Restarting: it applies its configuration in place.
	Restarting Phase = "restarting"
	// Done is the final phase of a machine that was replaced or restarted.
	Done Phase = "done"
	// Kept is the final phase of a machine that was left in place: skipped, or its group was
	// stopped. If it was detached, it continues to serve, uncounted; the next rollout removes it
	// first.
	Kept Phase = "kept"
)

// IsOver reports whether the machine is finished.
func (p Phase) IsOver() bool { return p == Done || p == Kept }

// State is the state of a rollout. It is a plain value, stored as JSON.
type State struct {
	// ID distinguishes this rollout from others of the cluster.
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	// Ended is when the rollout ended; zero while it is under way.
	Ended   time.Time `json:"ended,omitzero"`
	Options Options   `json:"options"`
	// Groups are in the order of their stages, and by name within each.
	Groups []Group `json:"groups"`
	// ControlPlanes are the groups of control planes, rolled or not: their failures concern all
	// groups.
	ControlPlanes []string `json:"controlPlanes,omitempty"`
	// Baseline are the cluster's failures before the rollout: they are listed, and stop nothing.
	Baseline []status.Failure `json:"baseline,omitempty"`
	// Etcd is the state of the etcd clusters before the rollout.
	Etcd []EtcdBaseline `json:"etcd,omitempty"`
	// Paused: actions under way continue, and no others begin. Aborted: no actions begin, and
	// machines under way are left as they are where possible.
	Paused  bool `json:"paused,omitempty"`
	Aborted bool `json:"aborted,omitempty"`
	// Stopped says why later stages were not begun; nil if nothing stopped the rollout. Groups have
	// their own.
	Stopped *Stop `json:"stopped,omitempty"`
	// Questions are waiting for the user's answers.
	Questions []Question `json:"questions,omitempty"`
}

// EtcdBaseline is the state of an etcd cluster before a rollout: how many voters it had, and how
// many members were unhealthy.
type EtcdBaseline struct {
	Name   string `json:"name"`
	Voters int    `json:"voters"`
	Unwell int    `json:"unwell,omitempty"`
}

// Options specify how to roll. The comments name the corresponding flag of kOps, if there is one.
type Options struct {
	// CloudOnly neither queries nor changes nodes: no taints, drains, health checks or surge
	// (--cloudonly).
	CloudOnly bool `json:"cloudOnly,omitempty"`
	// Interactive takes one machine at a time, and asks after each (--interactive).
	Interactive bool `json:"interactive,omitempty"`
	// Ask means that a drain that takes too long leads to a question (Questions) instead of
	// stopping its group.
	Ask bool `json:"ask,omitempty"`

	// Intervals are the minimum time between the end of a machine and the beginning of what follows
	// (--bastion-interval, --control-plane-interval, --node-interval).
	BastionInterval      time.Duration `json:"bastionInterval"`
	ControlPlaneInterval time.Duration `json:"controlPlaneInterval"`
	NodeInterval         time.Duration `json:"nodeInterval"`
	// ValidateCount is how many times, ValidateTick apart, the cluster must be healthy before the
	// next machine is taken; 0 ignores failures of the cluster (--validate-count).
	ValidateCount int `json:"validateCount"`
	// ValidationTimeout is how long a successor, or the cluster, may take to become healthy
	// (--validation-timeout).
	ValidationTimeout time.Duration `json:"validationTimeout"`
	// DrainTimeout limits a drain (--drain-timeout); PostDrainDelay follows it
	// (--post-drain-delay).
	DrainTimeout   time.Duration `json:"drainTimeout"`
	PostDrainDelay time.Duration `json:"postDrainDelay"`
	// FailOnDrainError, if false, terminates machines that cannot be drained
	// (--fail-on-drain-error).
	FailOnDrainError bool `json:"failOnDrainError"`
	// FailOnValidateError, if false, continues after the ValidationTimeout
	// (--fail-on-validate-error).
	FailOnValidateError bool `json:"failOnValidateError"`

	// Canary takes the first machine of a group alone, unless one of its machines is already up to
	// date and healthy.
	Canary bool `json:"canary"`
	// Soak is how long a successor must stay ready before it counts.
	Soak time.Duration `json:"soak"`
	// DrainRestarts drains machines before they are restarted in place.
	DrainRestarts bool `json:"drainRestarts,omitempty"`
	// Gates must pass before the first machine of a group, between machines, and after the last.
	Gates []Gate `json:"gates,omitempty"`
}

// ValidateTick is the time between two of the checks that Options.ValidateCount counts.
const ValidateTick = 10 * time.Second

// Defaults returns kOps' defaults, and those of options that kOps does not have.
func Defaults() Options {
	return Options{
		BastionInterval: 15 * time.Second, ControlPlaneInterval: 15 * time.Second, NodeInterval: 15 * time.Second,
		ValidateCount: 2, ValidationTimeout: 15 * time.Minute,
		DrainTimeout: 15 * time.Minute, PostDrainDelay: 5 * time.Second,
		FailOnDrainError: true, FailOnValidateError: true,
		Canary: true, Soak: 10 * time.Second,
	}
}

// Gate is a user's check: a command that must succeed, or a URL that must respond with 2xx.
type Gate struct {
	Command []string `json:"command,omitempty"`
	URL     string   `json:"url,omitempty"`
}

// Group is an instance group in a rollout.
type Group struct {
	Name string                `json:"name"`
	Role api.InstanceGroupRole `json:"role"`
	// Stage is its place in the order of roles: groups of one stage are rolled concurrently.
	Stage Stage `json:"stage"`
	// Surge and Unavailable are how many machines more, and fewer, the rollout may cause.
	Surge       int `json:"surge"`
	Unavailable int `json:"unavailable"`
	// Size is the largest number of machines it had when the rollout began, or since.
	Size int `json:"size"`
	// Lone means that its machine is the only one of its role: load balancers keep it to the end.
	Lone bool `json:"lone,omitempty"`
	// SurgeOnly is drainAndTerminate: false: as many machines as Surge are detached, and nothing
	// else is done.
	SurgeOnly bool `json:"surgeOnly,omitempty"`
	// Refills means that its platform creates successors on its own; otherwise an Update does.
	Refills bool `json:"refills,omitempty"`
	// Revision is the cluster's revision to return to if the canary fails; 0 if none is known.
	Revision int `json:"revision,omitempty"`

	// Machines are the machines to roll, in order.
	Machines []Machine `json:"machines"`
	// Rest are its other machines when the rollout began, and Broken those among them that were not
	// ready.
	Rest   []string `json:"rest,omitempty"`
	Broken []string `json:"broken,omitempty"`
	// New are the machines that have appeared since.
	New []Newcomer `json:"new,omitempty"`

	// Proven means that a machine with the new configuration is healthy: the canary has passed.
	Proven bool `json:"proven,omitempty"`
	// Gates is the state of the checks of Options.Gates, and Creation the state of an Update.
	Gates    GateState `json:"gates,omitzero"`
	Creation Creation  `json:"making,omitzero"`
	// Well is the time since which no new failure concerns the group; zero while one does.
	Well time.Time `json:"well,omitzero"`
	// Waits says what the group waits for; empty if nothing. Held is the time since when that has
	// been an obstacle; zero if it is none.
	Waits        string    `json:"waits,omitempty"`
	WaitingSince time.Time `json:"held,omitzero"`
	// Stopped says why no more of its machines are begun.
	Stopped *Stop `json:"stopped,omitempty"`
	// Ended is when the group was finished; zero before.
	Ended time.Time `json:"ended,omitzero"`
}

// GateState is for how many finished machines, plus one, the gates were last requested, and last
// passed.
type GateState struct {
	Requested int `json:"asked,omitempty"`
	Passed    int `json:"passed,omitempty"`
	// Trouble is what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	Effort
}

// Creation is the state of an Update, which creates the machines of a group.
type Creation struct {
	// Trouble is what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	Effort
}

// Stage is a place in a rollout's order.
type Stage int

// Stages, in their order.
const (
	Bastions Stage = iota
	ControlPlanes
	APIServers
	Nodes
)

// Newcomer is a machine that appeared while its group was rolled.
type Newcomer struct {
	Name string `json:"name"`
	// Ready is the time since which its node is ready; zero while it is not.
	Ready time.Time `json:"ready,omitzero"`
	// Well means that it has soaked.
	Well bool `json:"well,omitempty"`
	// For is the machine that it succeeds; empty if no machine waits for it.
	For string `json:"for,omitempty"`
}

// Machine is a machine to replace or to restart.
type Machine struct {
	Name string `json:"name"`
	// Node is its node's name; empty if it has no node.
	Node    string   `json:"node,omitempty"`
	Effect  Effect   `json:"effect"`
	Reasons []string `json:"reasons,omitempty"`
	Phase   Phase    `json:"phase"`
	// Since is when it entered the phase; Deadline is when the wait for its successor, its restart
	// or its drain becomes too long.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Surged means that its successor comes before it goes.
	Surged bool `json:"surged,omitempty"`
	// Successor is the machine that replaces it, once it exists.
	Successor string `json:"successor,omitempty"`
	// WasCordoned means that the user had cordoned it before, and WasBroken that it did not serve.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	WasBroken   bool `json:"wasBroken,omitempty"`
	// Touched means that the rollout may have tainted or cordoned its node, which must be released
	// if the machine stays.
	Touched bool `json:"touched,omitempty"`
	// Spare means that it waited in a warm pool: nothing takes its place.
	Spare bool `json:"spare,omitempty"`
	// Deregistered means that no load balancer sends it requests; Drained is when its pods were
	// gone, and Ended when the machine was.
	Deregistered bool      `json:"deregistered,omitempty"`
	Drained      time.Time `json:"drained,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	// Silent is the time since which its node has not responded during the drain; zero if it
	// responds.
	Silent time.Time `json:"silent,omitzero"`
	// Skipped means that the user wants it left as it is.
	Skipped bool `json:"skipped,omitempty"`
	// Blockers are what prevents it from being drained.
	Blockers []string `json:"blockers,omitempty"`
	// Trouble says what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	// Lacks says what keeps its successor from appearing or becoming ready, as far as the platform
	// or the successor reports it.
	Lacks string `json:"lacks,omitempty"`
	Effort
}

// Effort records the attempts at the current action.
type Effort struct {
	// Did is the last attempt; At is when it ended.
	Did Verb      `json:"did,omitempty"`
	At  time.Time `json:"at,omitzero"`
	// Attempts counts consecutive failures; Hopeless means that there will be no more attempts.
	Attempts int  `json:"attempts,omitempty"`
	Hopeless bool `json:"hopeless,omitempty"`
}

// Stop says why a group, or the rollout, was stopped.
type Stop struct {
	At time.Time `json:"at"`
	// Why is a sentence without a full stop; it names the machine and the phase if there is one.
	Why     string `json:"why"`
	Machine string `json:"machine,omitempty"`
	Phase   Phase  `json:"phase,omitempty"`
	// Canary means that the first machine failed: the group should go back to its Revision.
	Canary bool `json:"canary,omitempty"`
	// Declined means that the user chose not to continue.
	Declined bool `json:"declined,omitempty"`
}

// Question is a question to the user. Its ID does not change when it is asked again.
type Question = status.Question

// Answers to questions.
const (
	Yes    = "yes"    // take the next machine
	No     = "no"     // stop
	Always = "always" // continue, and do not ask again
	Wait   = "wait"   // drain for another DrainTimeout
	Force  = "force"  // terminate the machine with its pods
	Skip   = "skip"   // leave the machine as it is, and continue with others
	Halt   = "stop"   // stop the group
)

// Verb is the kind of an action.
type Verb string

const (
	// Taint makes pods prefer other nodes (labels.ScheduledForUpdate, PreferNoSchedule). It may
	// fail.
	Taint Verb = "taint"
	// Detach removes a machine from its group's count.
	Detach Verb = "detach"
	// Cordon makes a node unschedulable, and excludes it from external load balancers.
	Cordon Verb = "cordon"
	// Deregister removes a machine from load balancers, and ends when none sends it anything.
	Deregister Verb = "deregister"
	// Drain evicts a node's pods, and ends when they are gone. It tries until it is cancelled.
	Drain Verb = "drain"
	// Terminate terminates a machine, and deletes its Node.
	Terminate Verb = "terminate"
	// RestartInPlace asks a machine to apply its configuration, and ends once the request was made.
	RestartInPlace Verb = "restart"
	// Release reverts Taint and Cordon, for a machine that stays.
	Release Verb = "release"
	// Update makes the platform create a group's missing machines.
	Update Verb = "update"
	// CheckGates checks all gates for a group; it fails with the first that fails.
	CheckGates Verb = "gates"
	// Prompt asks a question; the answer comes as a Wish.
	Prompt Verb = "prompt"
	// Sleep requests a Step at Until, even if nothing happens before.
	Sleep Verb = "sleep"
)

// Action is what should be under way. It is comparable: equal actions are the same action.
//
// Step returns all actions that should be under way, each time. The driver begins new ones, and
// cancels those that are no longer returned. Actions are idempotent: a driver that died before it
// could report may have carried them out, in part or in whole. When an action has ended, unless it
// was cancelled, the next View has its Result, once; if that is lost, Step requests the action
// again. Two actions for one machine are never under way at once: an action that follows a
// cancelled one begins when that has ended.
type Action struct {
	Do Verb
	// Machine is the machine that Taint … Release apply to; Group is its group, or the group that
	// Update and CheckGates apply to.
	Machine, Group string
	// Dead means that the machine's node does not respond, so that Drain does not wait for its pods
	// to terminate.
	Dead bool
	// StayCordoned makes Release leave a node unschedulable, as it was before.
	StayCordoned bool
	// Round distinguishes checks of gates: one that began before a machine was done does not count
	// afterwards.
	Round int
	// Question is the ID of what Prompt asks.
	Question string
	// Until is when Sleep ends.
	Until time.Time
}

// View is what is observed of the cluster at one time. The driver keeps it up to date from watches.
type View struct {
	Now time.Time
	// Groups are what the platform reports about the groups of the State. A missing group is not
	// known at the moment; a machine that is missing from its group is gone.
	Groups []GroupView
	// API means that the API server responds: the information on nodes, pods and failures is
	// current.
	API bool
	// Failures are the cluster's failures (health.Check).
	Failures []status.Failure
	// Etcd are the etcd clusters that run on control planes; EtcdKnown means that they could be
	// queried.
	Etcd      []EtcdView
	EtcdKnown bool
	// Requests are the user's requests since the last Step, oldest first. A repeated request is harmless.
	Requests []Request
	// Results are the results of actions since the last Step.
	Results []Result
}

// GroupView is what is observed of a group.
type GroupView struct {
	Name string
	// Target is how many machines it should have, not counting detached ones.
	Target   int
	Machines []MachineView
	// Trouble is platform.MachineGroup's: why machines are missing.
	Trouble string
}

// MachineView is what is observed of an existing machine.
type MachineView struct {
	// Name is the platform's; a machine's successor has another.
	Name string
	// Running, Detached and Spare are as in platform.Machine. A machine that is being terminated
	// does not exist.
	Running, Detached, Spare bool
	// Node is its node's name, empty if it has no node; Ready means that the node is ready.
	Node  string
	Ready bool
	// Cordoned and Tainted report whether Cordon and Taint are in effect on the node.
	Cordoned, Tainted bool
	// Applied means that it runs its wanted configuration: its restart is over.
	Applied bool
	// Blockers are what prevents its pods from being evicted.
	Blockers []string
	// Note is what is known about a machine that does not join, such as the phase of its start.
	Note string
}

// EtcdView is an etcd cluster.
type EtcdView struct {
	Name    string
	Members []EtcdMember
}

// EtcdMember is a member of an etcd cluster.
type EtcdMember struct {
	Name string
	// Machine is the member's machine; empty if it is not known.
	Machine string
	Healthy bool
	// Voter means that it counts for a majority.
	Voter bool
}

// Request is what the user wants.
type Request struct {
	Want Want
	// Question and Answer belong to a Reply.
	Question, Answer string
}

// Want is a kind of request.
type Want string

const (
	// Pause and Resume apply to the whole rollout. Resume also resumes stopped groups.
	Pause  Want = "pause"
	Resume Want = "resume"
	// Abort ends the rollout without finishing it.
	Abort Want = "abort"
	// Reply answers a question.
	Reply Want = "reply"
)

// Result is the result of an action.
type Result struct {
	Action
	// Trouble says what went wrong; empty if the action succeeded.
	Trouble string
	// Final means that another attempt would fail, too.
	Final bool
}

// Plan is a group of the cluster, and the changes planned for it, as a rollout begins.
type Plan struct {
	Name string
	Role api.InstanceGroupRole
	// Surge and Unavailable are as Budget returns them.
	Surge, Unavailable int
	// SurgeOnly, Refills, Lone and Revision are as in Group.
	SurgeOnly, Refills, Lone bool
	Revision                 int
	// Machines have Name, Node, Effect and Reasons; all others of the group are left alone, and so
	// is the group if there are none.
	Machines []Machine
}

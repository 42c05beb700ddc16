package roll

import (
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
)

// Effect is what is done to a machine.
type Effect string

const (
	// Replace ends the machine after its pods were moved; another one takes its place.
	Replace Effect = "replace"
	// Restart has the machine take up its new configuration in place.
	Restart Effect = "restart"
)

// Phase is how far a machine has come.
//
// With surge: pending, surged, joined, soaking, cordoned, draining, gone, done.
// Without: pending, cordoned, draining, gone, joined, soaking, done.
// In place: pending, (cordoned, draining,) restarting, soaking, done.
// Joined and soaking are about the successor, which after a restart is the machine itself.
type Phase string

const (
	// Pending machines were not begun.
	Pending Phase = "pending"
	// Surged: its group counts it no longer, and makes its successor; it goes on to serve.
	Surged Phase = "surged"
	// Joined: the successor exists; its node is not ready yet, or not there.
	Joined Phase = "joined"
	// Soaking: the successor's node is ready, and has to stay so for Options.Soak.
	Soaking Phase = "soaking"
	// Cordoned: no new pods; it leaves the load balancers.
	Cordoned Phase = "cordoned"
	// Draining: its pods are evicted, and then it is terminated.
	Draining Phase = "draining"
	// Gone: it is terminated.
	Gone Phase = "gone"
	// Restarting: it takes up its configuration in place.
	Restarting Phase = "restarting"
	// Done is the end of a machine that was replaced or restarted.
	Done Phase = "done"
	// Kept is the end of a machine that was left as it is: skipped, or its group was stopped.
	// One that was detached goes on to serve, uncounted; the next rollout ends it first.
	Kept Phase = "kept"
)

// Over reports whether nothing more happens to the machine.
func (p Phase) Over() bool { return p == Done || p == Kept }

// State is a rollout. It is a plain value, kept as JSON.
type State struct {
	// ID tells this rollout from others of the cluster.
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	// Ended is when all was over; zero while the rollout is under way.
	Ended   time.Time `json:"ended,omitzero"`
	Options Options   `json:"options"`
	// Groups are in the order of their stages, and by name within each.
	Groups []Group `json:"groups"`
	// ControlPlanes are the groups of control planes, rolled or not: their failures concern all.
	ControlPlanes []string `json:"controlPlanes,omitempty"`
	// Baseline are the failures of the cluster before the rollout: they are listed, and stop nothing.
	Baseline []status.Failure `json:"baseline,omitempty"`
	// Etcd is how the etcd clusters were before.
	Etcd []EtcdBaseline `json:"etcd,omitempty"`
	// Paused: actions that were begun continue, and no others begin. Aborted: no actions
	// begin, and machines that were begun are left as they are where possible.
	Paused  bool `json:"paused,omitempty"`
	Aborted bool `json:"aborted,omitempty"`
	// Stopped says why the stages after it were not begun; nil while nothing stopped it. Groups have their own.
	Stopped *Stop `json:"stopped,omitempty"`
	// Questions wait for an answer of the user.
	Questions []Question `json:"questions,omitempty"`
}

// EtcdBaseline is how an etcd cluster was before a rollout: how many voters it had, and
// how many members were unhealthy.
type EtcdBaseline struct {
	Name   string `json:"name"`
	Voters int    `json:"voters"`
	Unwell int    `json:"unwell,omitempty"`
}

// Options say how to roll. The comments name the flag of kOps where there is one.
type Options struct {
	// CloudOnly neither asks nor changes nodes: no taints, drains, health, surge (--cloudonly).
	CloudOnly bool `json:"cloudOnly,omitempty"`
	// Interactive asks after each machine, of which one is taken at a time (--interactive).
	Interactive bool `json:"interactive,omitempty"`
	// Ask says that a drain that takes too long is a question (Questions) rather than a stop of its group.
	Ask bool `json:"ask,omitempty"`

	// Intervals are the least time between the end of a machine and the beginning of what
	// follows it (--bastion-interval, --control-plane-interval, --node-interval).
	BastionInterval      time.Duration `json:"bastionInterval"`
	ControlPlaneInterval time.Duration `json:"controlPlaneInterval"`
	NodeInterval         time.Duration `json:"nodeInterval"`
	// ValidateCount is how often, ValidateTick apart, the cluster has to be seen well before
	// the next machine is taken; 0 leaves failures of the cluster out of account (--validate-count).
	ValidateCount int `json:"validateCount"`
	// ValidationTimeout is how long a successor, or the cluster, may take to be well (--validation-timeout).
	ValidationTimeout time.Duration `json:"validationTimeout"`
	// DrainTimeout bounds a drain (--drain-timeout); PostDrainDelay follows it (--post-drain-delay).
	DrainTimeout   time.Duration `json:"drainTimeout"`
	PostDrainDelay time.Duration `json:"postDrainDelay"`
	// FailOnDrainError false ends machines that cannot be drained (--fail-on-drain-error).
	FailOnDrainError bool `json:"failOnDrainError"`
	// FailOnValidateError false goes on after the ValidationTimeout (--fail-on-validate-error).
	FailOnValidateError bool `json:"failOnValidateError"`

	// Canary takes the first machine of a group alone, unless a machine of it is up to date and well.
	Canary bool `json:"canary"`
	// Soak is how long a successor has to stay ready before it counts.
	Soak time.Duration `json:"soak"`
	// DrainRestarts drains machines before they are restarted in place.
	DrainRestarts bool `json:"drainRestarts,omitempty"`
	// Gates have to be passed before the first machine of a group, between machines, and after the last.
	Gates []Gate `json:"gates,omitempty"`
}

// ValidateTick is the time between two of the looks that Options.ValidateCount counts.
const ValidateTick = 10 * time.Second

// Defaults returns kOps' defaults, and ours.
func Defaults() Options {
	return Options{
		BastionInterval: 15 * time.Second, ControlPlaneInterval: 15 * time.Second, NodeInterval: 15 * time.Second,
		ValidateCount: 2, ValidationTimeout: 15 * time.Minute,
		DrainTimeout: 15 * time.Minute, PostDrainDelay: 5 * time.Second,
		FailOnDrainError: true, FailOnValidateError: true,
		Canary: true, Soak: 10 * time.Second,
	}
}

// Gate is a check of the user: a command that has to succeed, or a URL that has to answer 2xx.
type Gate struct {
	Command []string `json:"command,omitempty"`
	URL     string   `json:"url,omitempty"`
}

// Group is an instance group in a rollout.
type Group struct {
	Name string                `json:"name"`
	Role api.InstanceGroupRole `json:"role"`
	// Stage is its place in the order of roles: groups of one are rolled at once.
	Stage Stage `json:"stage"`
	// Surge and Unavailable are how many machines more, and fewer, there may be, by the rollout's doing.
	Surge       int `json:"surge"`
	Unavailable int `json:"unavailable"`
	// Size is how many machines it had when the rollout began, or has had since.
	Size int `json:"size"`
	// Lone says that its machine is the only one of its role: load balancers keep it to the end.
	Lone bool `json:"lone,omitempty"`
	// SurgeOnly is drainAndTerminate: false: as many as Surge are detached, and nothing else is done.
	SurgeOnly bool `json:"surgeOnly,omitempty"`
	// Refills says that its platform makes successors by itself; otherwise an Update does.
	Refills bool `json:"refills,omitempty"`
	// Revision is the cluster's revision to return to when the canary fails; 0 when none is known.
	Revision int `json:"revision,omitempty"`

	// Machines are those to roll, in the order in which they are taken.
	Machines []Machine `json:"machines"`
	// Rest are its other machines when the rollout began, and Broken the ones of them that were
	// not ready.
	Rest   []string `json:"rest,omitempty"`
	Broken []string `json:"broken,omitempty"`
	// New are the machines that appeared since.
	New []Newcomer `json:"new,omitempty"`

	// Proven says that a machine with the new configuration is well: the canary is past.
	Proven bool `json:"proven,omitempty"`
	// Gates says how the checks of Options.Gates stand, and Making how an Update does.
	Gates  GateState `json:"gates,omitzero"`
	Making Making    `json:"making,omitzero"`
	// Well is since when no new failure concerns the group; zero while one does.
	Well time.Time `json:"well,omitzero"`
	// Waits says what the group waits for, and Held since when that is in its way; empty when nothing is.
	Waits string    `json:"waits,omitempty"`
	Held  time.Time `json:"held,omitzero"`
	// Stopped says why nothing of it is begun any more.
	Stopped *Stop `json:"stopped,omitempty"`
	// Ended is when all of it was over; zero before.
	Ended time.Time `json:"ended,omitzero"`
}

// GateState says after how many machines that are done, plus one, the gates were asked,
// and passed, last.
type GateState struct {
	Asked  int `json:"asked,omitempty"`
	Passed int `json:"passed,omitempty"`
	// Trouble is what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	Effort
}

// Making says how an Update that makes the machines of a group goes.
type Making struct {
	// Trouble is what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	Effort
}

// Stage is a place in the order of a rollout.
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
	// Ready is since when its node is ready; zero while it is not.
	Ready time.Time `json:"ready,omitzero"`
	// Well says that it has soaked.
	Well bool `json:"well,omitempty"`
	// For is the machine that it succeeds; empty for one that nobody waits for.
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
	// Since is when it came to the phase; Deadline, when the wait for its successor, for its
	// restart or for its drain is too long.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Surged says that its successor comes before it goes.
	Surged bool `json:"surged,omitempty"`
	// Successor is the machine in its place, once it exists.
	Successor string `json:"successor,omitempty"`
	// WasCordoned says that the user had cordoned it before, and WasBroken that it did not serve.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	WasBroken   bool `json:"wasBroken,omitempty"`
	// Touched says that its node may be tainted or cordoned by the rollout, and has to be
	// released where the machine stays.
	Touched bool `json:"touched,omitempty"`
	// Spare says that it waited in a warm pool: nothing takes its place.
	Spare bool `json:"spare,omitempty"`
	// Deregistered says that no load balancer knows it; Drained and Ended are when its pods
	// were gone, and when it was.
	Deregistered bool      `json:"deregistered,omitempty"`
	Drained      time.Time `json:"drained,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	// Silent is since when its node does not answer while it is drained; zero when it does.
	Silent time.Time `json:"silent,omitzero"`
	// Skipped says that the user wants it left as it is.
	Skipped bool `json:"skipped,omitempty"`
	// Blockers are what keeps it from being drained.
	Blockers []string `json:"blockers,omitempty"`
	// Trouble says what went wrong last.
	Trouble string `json:"trouble,omitempty"`
	// Lacks says what keeps its successor from being there, or from being ready, as far as
	// the platform or the successor tells.
	Lacks string `json:"lacks,omitempty"`
	Effort
}

// Effort records the attempts at the current action.
type Effort struct {
	// Did is the last attempt, At is when it ended.
	Did Verb      `json:"did,omitempty"`
	At  time.Time `json:"at,omitzero"`
	// Attempts counts the failed ones in a row; Hopeless says that no more are made.
	Attempts int  `json:"attempts,omitempty"`
	Hopeless bool `json:"hopeless,omitempty"`
}

// Stop says why a group, or the rollout, was stopped.
type Stop struct {
	At time.Time `json:"at"`
	// Why is a sentence without a full stop; it names the machine and the phase where there is one.
	Why     string `json:"why"`
	Machine string `json:"machine,omitempty"`
	Phase   Phase  `json:"phase,omitempty"`
	// Canary says that the first machine that was taken failed: the group had better go back to its Revision.
	Canary bool `json:"canary,omitempty"`
	// Declined says that the user chose not to continue.
	Declined bool `json:"declined,omitempty"`
}

// Question is what the user is asked. Its ID is the same at each asking.
type Question = status.Question

// Answers to questions.
const (
	Yes    = "yes"    // take the next machine
	No     = "no"     // stop
	Always = "always" // and ask no more
	Wait   = "wait"   // drain for another DrainTimeout
	Force  = "force"  // end the machine with what is on it
	Skip   = "skip"   // leave the machine as it is, and go on with others
	Halt   = "stop"   // stop the group
)

// Verb is the kind of an action.
type Verb string

const (
	// Taint has pods prefer other nodes (labels.ScheduledForUpdate, PreferNoSchedule). It may fail.
	Taint Verb = "taint"
	// Detach has the group of a machine count it no longer.
	Detach Verb = "detach"
	// Cordon makes a node unschedulable, and excludes it from external load balancers.
	Cordon Verb = "cordon"
	// Deregister takes a machine out of load balancers, and ends when none sends it anything.
	Deregister Verb = "deregister"
	// Drain evicts a node's pods, and ends when they are gone. It tries until it is cancelled.
	Drain Verb = "drain"
	// Terminate ends a machine, and removes its Node.
	Terminate Verb = "terminate"
	// RestartInPlace asks a machine to take up its configuration, and ends once it is asked.
	RestartInPlace Verb = "restart"
	// Release takes back Taint and Cordon, of a machine that stays.
	Release Verb = "release"
	// Update has the platform make the machines that a group lacks.
	Update Verb = "update"
	// CheckGates has all gates checked for a group; it fails with the first that does.
	CheckGates Verb = "gates"
	// Prompt asks a question; the answer comes as a Wish.
	Prompt Verb = "prompt"
	// Sleep asks for a Step at Until, though nothing happens before.
	Sleep Verb = "sleep"
)

// Action is what should be under way. It is comparable: equal actions are the same action.
//
// Step returns all actions that should be under way, each time. The driver begins new ones, and
// cancels those that are no longer named. Each can be repeated: it may have been done,
// in part or in whole, by a driver that died before it could report. When one has ended, unless
// it was cancelled, the next View has its Result, once; if that is lost, Step asks again.
// Two actions for one machine are never under way at once: an action that follows a
// cancelled one begins when that has ended.
type Action struct {
	Do Verb
	// Machine is what Taint … Release are about; Group is its group, or what Update and CheckGates are about.
	Machine, Group string
	// Dead says that the machine's node does not answer, so that Drain does not wait for its pods to end.
	Dead bool
	// StayCordoned has Release leave a node unschedulable, as it was before.
	StayCordoned bool
	// Round tells checks of gates apart: one that began before a machine was done says nothing after.
	Round int
	// Question is the ID of what Prompt asks.
	Question string
	// Until is when Sleep ends.
	Until time.Time
}

// View is what is seen of the cluster at one time. The driver keeps it up to date from watches.
type View struct {
	Now time.Time
	// Groups are what the platform shows of the groups of the State. A group that is not
	// among them is not known at the moment; a machine that is not among its group's is gone.
	Groups []GroupView
	// API says that the API server answers: the information on nodes, pods and failures is
	// current.
	API bool
	// Failures are the cluster's failures (health.Check).
	Failures []status.Failure
	// Etcd are the etcd clusters that run on control planes; EtcdKnown says that they could be asked.
	Etcd      []EtcdView
	EtcdKnown bool
	// Wishes are the user's wishes since the last Step, oldest first. A repeated wish does no
	// harm.
	Wishes []Wish
	// Results are what became of actions since the last Step.
	Results []Result
}

// GroupView is what is seen of a group.
type GroupView struct {
	Name string
	// Target is how many machines it is to have, those that are detached not counted.
	Target   int
	Machines []MachineView
	// Trouble is platform.MachineGroup's: why machines are missing.
	Trouble string
}

// MachineView is what is seen of a machine that exists.
type MachineView struct {
	// Name is the platform's; the successor of a machine has another.
	Name string
	// Running, Detached and Spare are as in platform.Machine. One that is being terminated does not exist.
	Running, Detached, Spare bool
	// Node is its node's name, empty if it has no node; Ready says that the node is ready.
	Node  string
	Ready bool
	// Cordoned and Tainted say what the node has of Cordon and Taint.
	Cordoned, Tainted bool
	// Applied says that it runs the configuration that it is to run: its restart is over.
	Applied bool
	// Blockers say what keeps its pods from being evicted.
	Blockers []string
	// Note says what is known of a machine that does not join, such as the phase of its start.
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
	// Machine is whose it is; empty when nobody knows.
	Machine string
	Healthy bool
	// Voter says that it counts for a majority.
	Voter bool
}

// Wish is what the user wants.
type Wish struct {
	Want Want
	// Question and Answer belong to a Reply.
	Question, Answer string
}

// Want is a sort of wish.
type Want string

const (
	// Pause and Resume are about the whole rollout. Resume also has stopped groups go on.
	Pause  Want = "pause"
	Resume Want = "resume"
	// Abort ends the rollout without finishing it.
	Abort Want = "abort"
	// Reply answers a question.
	Reply Want = "reply"
)

// Result is what became of an action.
type Result struct {
	Action
	// Trouble says what went wrong; empty when the action succeeded.
	Trouble string
	// Final says that it would go wrong again.
	Final bool
}

// Plan is a group of the cluster, and the changes planned for it, as a rollout begins.
type Plan struct {
	Name string
	Role api.InstanceGroupRole
	// Surge and Unavailable are as Budget gives them.
	Surge, Unavailable int
	// SurgeOnly, Refills, Lone and Revision are as in Group.
	SurgeOnly, Refills, Lone bool
	Revision                 int
	// Machines have Name, Node, Effect and Reasons; all others of the group are left alone.
	// None: so is the group.
	Machines []Machine
}

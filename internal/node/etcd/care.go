package etcd

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Task is a request to the managers of an etcd cluster, other than backups and their restore.
type Task string

const (
	// Defragment returns unused space to the disks, member by member.
	Defragment Task = "defrag"
	// DisarmAlarms clears the alarms whose causes are gone.
	DisarmAlarms Task = "disarm"
	// Drill restores a backup separately from the cluster, compares the two, and discards the restored data.
	Drill Task = "drill"
)

// Request requests a task. It is the object .kops/request, which is removed once the
// task is carried out or refused.
type Request struct {
	// ID distinguishes it from all other requests.
	ID   string    `json:"id"`
	Task Task      `json:"task"`
	At   time.Time `json:"at"`
	// Backup is the backup that a drill restores.
	Backup string `json:"backup,omitempty"`
}

// Answer is the progress of a request. It is the object .kops/answer.
type Answer struct {
	Request string `json:"request"`
	Done    bool   `json:"done"`
	// Problem is why the task was not carried out, or not completed.
	Problem string `json:"problem,omitempty"`
	// Members are the defragmented members, in this order.
	Members []DefragmentResult `json:"members,omitempty"`
	// Disarmed are the cleared alarms, such as "NOSPACE of etcd-a".
	Disarmed []string     `json:"disarmed,omitempty"`
	Drill    *DrillResult `json:"drill,omitempty"`
}

// DefragmentResult is the result of defragmenting a member's database; sizes are in bytes.
type DefragmentResult struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// DrillResult is the result of a drill.
type DrillResult struct {
	Backup      string `json:"backup"`
	EtcdVersion string `json:"etcdVersion"`
	// Took is how long it took until etcd served the backup, in nanoseconds.
	Took time.Duration `json:"took"`
	// Revision and Keys are those of the restored etcd, and Bytes is the size of its database.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	// Now is the revision of the cluster that it was compared with.
	Now int64 `json:"now"`
	// Same keys are unchanged; others were changed, created or deleted since, and a
	// restore would undo that.
	Same    int64 `json:"same"`
	Changed int64 `json:"changed"`
	Made    int64 `json:"made"`
	Deleted int64 `json:"deleted"`
	// Wrong are keys, up to a limit, that differ in the backup from the cluster's content at that time.
	Wrong []string `json:"wrong,omitempty"`
	// Problem is why the backup could not be restored or compared.
	Problem string `json:"problem,omitempty"`
}

// Alarms of etcd.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// defaultQuota is etcd's default limit of a database, in bytes, used if it does not
// report one (etcd documentation, "System limits").
const defaultQuota = 2 << 30

// Limit returns the maximum size of a member's database, in bytes.
func (m Member) Limit() int64 {
	if m.Quota > 0 {
		return m.Quota
	}
	return defaultQuota
}

// crowded is the fraction of its limit from which a database counts as full.
const crowded = 0.95

// care carries out the requested task, or refuses it.
func (s *situation) care() Decision {
	if s.Request == nil {
		return Decision{}
	}
	a := Answer{Request: s.Request.ID}
	if s.Answer != nil && s.Answer.Request == a.Request {
		a = *s.Answer
	}
	if a.Done { // the manager that answered died before it removed the request
		return Decision{Actions: []Action{Conclude{a}}}
	}
	switch s.Request.Task {
	case Defragment:
		return s.defragment(a)
	case DisarmAlarms:
		return s.disarm(a)
	case Drill:
		return s.drill(a)
	}
	return a.refuse(fmt.Sprintf("the managers do not know the task %q", s.Request.Task))
}

// refuse concludes a request that is not carried out, or not completed.
func (a Answer) refuse(why string) Decision {
	a.Problem = why
	return a.conclude()
}

func (a Answer) conclude() Decision {
	a.Done = true
	return Decision{Actions: []Action{Conclude{a}}}
}

// defragment defragments one member after another, and etcd's leader last, after its leadership is
// transferred: a member does not respond meanwhile. It starts none while another is unhealthy.
func (s *situation) defragment(a Answer) Decision {
	voters := s.voters()
	for _, m := range voters {
		begun := len(a.Members) > 0
		switch {
		case m.Healthy:
		case begun && !s.isLost("member "+m.ID, s.policy.Replace):
			return Decision{Note: "waiting for " + m.Name + " to be healthy after its database was defragmented", Soon: true}
		default:
			return a.refuse("member " + m.Name + " is unhealthy, and no member is defragmented while any is unhealthy")
		}
	}
	if len(voters) != len(s.Members) || len(voters) != s.Spec.MemberCount || s.isQuarantined() {
		return a.refuse(fmt.Sprintf("%d of %d members exist, and the cluster is about to change", len(voters), s.Spec.MemberCount))
	}
	slices.SortStableFunc(voters, func(x, y Member) int { return rankLeader(x) - rankLeader(y) })
	left := filter(voters, func(m Member) bool {
		return !slices.ContainsFunc(a.Members, func(d DefragmentResult) bool { return d.Name == m.Name })
	})
	if len(left) == 0 {
		return a.conclude()
	}
	if first := s.ensureBackup("before etcd is defragmented"); first != nil {
		return Decision{Actions: first}
	}
	next := left[0]
	if next.Leader && len(voters) > 1 {
		return Decision{Actions: []Action{MoveLeader{voters[0].ID, voters[0].Name}}, Soon: true}
	}
	full := slices.ContainsFunc(voters, func(m Member) bool { return slices.Contains(m.Alarms, NoSpace) })
	return Decision{Actions: []Action{DefragmentMember{Member: next.ID, Peer: next.Name, Compact: full, Answer: a}}, Soon: true}
}

// disarm clears alarms whose causes are gone: if there is space again, and all members
// have the same data.
func (s *situation) disarm(a Answer) Decision {
	alarmed, corrupt := false, false
	for _, m := range s.voters() {
		alarmed = alarmed || len(m.Alarms) > 0
		corrupt = corrupt || slices.Contains(m.Alarms, Corrupt)
		if float64(m.Size) >= crowded*float64(m.Limit()) {
			return a.refuse(fmt.Sprintf("the database of %s uses %d of %d bytes, and the alarm would return with the next write; defragment first", m.Name, m.Size, m.Limit()))
		}
	}
	switch {
	case !alarmed:
		return a.conclude()
	case corrupt && len(healthyMembers(s.voters())) < len(s.voters()):
		return a.refuse("not all members are healthy, so their data cannot be compared")
	}
	return Decision{Actions: []Action{Disarm{Compare: corrupt, Answer: a}}, Soon: true}
}

// drill has a backup restored on the leader's machine, and waits for the result.
func (s *situation) drill(a Answer) Decision {
	if s.DrillResult == nil {
		return Decision{Actions: []Action{BeginDrill{Request: *s.Request}}, Soon: true}
	}
	a.Drill, a.Problem = s.DrillResult, s.DrillResult.Problem
	return a.conclude()
}

func (a DefragmentMember) String() string {
	s := fmt.Sprintf("defragment the database of member %s of %s", a.Member, a.Peer)
	if a.Compact {
		s += ", without the earlier revisions"
	}
	return s
}

func (a Disarm) String() string {
	s := "disarm the alarms"
	if a.Compare {
		s += ", after comparing the members"
	}
	return s
}
func (a BeginDrill) String() string { return "restore " + a.Request.Backup + " beside the cluster" }

func (a Conclude) String() string {
	var names []string
	for _, m := range a.Answer.Members {
		names = append(names, m.Name)
	}
	s := "finish the request " + a.Answer.Request
	if len(names) > 0 {
		s += ", defragmented " + strings.Join(names, "+")
	}
	if a.Answer.Problem != "" {
		s += ": " + a.Answer.Problem
	}
	return s
}

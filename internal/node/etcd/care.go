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
	// Defragment gives the space that nothing uses back to the disks, member by member.
	Defragment Task = "defrag"
	// DisarmAlarms ends the alarms whose causes are gone.
	DisarmAlarms Task = "disarm"
	// Drill restores a back-up beside the cluster, compares the two, and throws it away.
	Drill Task = "drill"
)

// Request asks for a task. It is the object .kops/request, and gone once it is carried
// out or refused.
type Request struct {
	// ID tells it from every other.
	ID   string    `json:"id"`
	Task Task      `json:"task"`
	At   time.Time `json:"at"`
	// Backup is what a drill restores.
	Backup string `json:"backup,omitempty"`
}

// Answer is the progress of a request. It is the object .kops/answer.
type Answer struct {
	Request string `json:"request"`
	Done    bool   `json:"done"`
	// Problem says why the task was not carried out, or not to its end.
	Problem string `json:"problem,omitempty"`
	// Members are those that were defragmented, in this order.
	Members []Defragmented `json:"members,omitempty"`
	// Disarmed are the alarms that were ended, such as "NOSPACE of etcd-a".
	Disarmed []string `json:"disarmed,omitempty"`
	Drill    *Drilled `json:"drill,omitempty"`
}

// Defragmented is what became of the database of a member, in bytes.
type Defragmented struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// Drilled is what a drill found out.
type Drilled struct {
	Backup      string `json:"backup"`
	EtcdVersion string `json:"etcdVersion"`
	// Took is how long it took until etcd served the back-up, in nanoseconds.
	Took time.Duration `json:"took"`
	// Revision and Keys are what the restored etcd serves, and Bytes the size of its database.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	// Now is the revision of the cluster that it was compared with.
	Now int64 `json:"now"`
	// Same keys are as they were; others were changed, made or deleted since, and a
	// restore would undo that.
	Same    int64 `json:"same"`
	Changed int64 `json:"changed"`
	Made    int64 `json:"made"`
	Deleted int64 `json:"deleted"`
	// Wrong are keys, at most some, that the back-up has otherwise than the cluster had them then.
	Wrong []string `json:"wrong,omitempty"`
	// Problem says why the back-up could not be restored or compared.
	Problem string `json:"problem,omitempty"`
}

// Alarms of etcd.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// usualQuota is etcd's limit of a database where it does not tell, in bytes
// (etcd documentation, "System limits").
const usualQuota = 2 << 30

// Limit is how large a member's database may become, in bytes.
func (m Member) Limit() int64 {
	if m.Quota > 0 {
		return m.Quota
	}
	return usualQuota
}

// crowded is the share of its limit from which on a database is as good as full.
const crowded = 0.95

// care does what was asked for, or says why not.
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

// refuse ends a request that is not carried out, or not to its end.
func (a Answer) refuse(why string) Decision {
	a.Problem = why
	return a.conclude()
}

func (a Answer) conclude() Decision {
	a.Done = true
	return Decision{Actions: []Action{Conclude{a}}}
}

// defragment takes one member after the other, and etcd's leader last, after a hand-over: a member
// answers nobody meanwhile. None is begun while another is unhealthy.
func (s *situation) defragment(a Answer) Decision {
	voters := s.voters()
	for _, m := range voters {
		begun := len(a.Members) > 0
		switch {
		case m.Healthy:
		case begun && !s.lost("member "+m.ID, s.policy.Replace):
			return Decision{Note: "waiting for " + m.Name + " to be healthy after its database was defragmented", Soon: true}
		default:
			return a.refuse("member " + m.Name + " is unhealthy, and no member is defragmented while any is unhealthy")
		}
	}
	if len(voters) != len(s.Members) || len(voters) != s.Spec.MemberCount || s.quarantined() {
		return a.refuse(fmt.Sprintf("%d of %d members are there, and the cluster is about to change", len(voters), s.Spec.MemberCount))
	}
	slices.SortStableFunc(voters, func(x, y Member) int { return rankLeader(x) - rankLeader(y) })
	left := filter(voters, func(m Member) bool {
		return !slices.ContainsFunc(a.Members, func(d Defragmented) bool { return d.Name == m.Name })
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

// disarm ends alarms whose causes are gone: where there is space again, and all members
// have the same data.
func (s *situation) disarm(a Answer) Decision {
	alarmed, corrupt := false, false
	for _, m := range s.voters() {
		alarmed = alarmed || len(m.Alarms) > 0
		corrupt = corrupt || slices.Contains(m.Alarms, Corrupt)
		if float64(m.Size) >= crowded*float64(m.Limit()) {
			return a.refuse(fmt.Sprintf("the database of %s has %d of %d bytes, and the alarm would be back with the next write; defragment first", m.Name, m.Size, m.Limit()))
		}
	}
	switch {
	case !alarmed:
		return a.conclude()
	case corrupt && len(healthy(s.voters())) < len(s.voters()):
		return a.refuse("not all members are healthy, so their data cannot be compared")
	}
	return Decision{Actions: []Action{Disarm{Compare: corrupt, Answer: a}}, Soon: true}
}

// drill lets a back-up be restored on the leader's machine, and waits for what comes of it.
func (s *situation) drill(a Answer) Decision {
	if s.Drilled == nil {
		return Decision{Actions: []Action{BeginDrill{Request: *s.Request}}, Soon: true}
	}
	a.Drill, a.Problem = s.Drilled, s.Drilled.Problem
	return a.conclude()
}

func (a DefragmentMember) String() string {
	s := fmt.Sprintf("defragment the database of member %s of %s", a.Member, a.Peer)
	if a.Compact {
		s += ", without what was before"
	}
	return s
}

func (a Disarm) String() string {
	s := "disarm the alarms"
	if a.Compare {
		s += ", once the members were compared"
	}
	return s
}
func (a BeginDrill) String() string { return "restore " + a.Request.Backup + " beside the cluster" }

func (a Conclude) String() string {
	var told []string
	for _, m := range a.Answer.Members {
		told = append(told, m.Name)
	}
	s := "conclude the request " + a.Answer.Request
	if len(told) > 0 {
		s += ", defragmented " + strings.Join(told, "+")
	}
	if a.Answer.Problem != "" {
		s += ": " + a.Answer.Problem
	}
	return s
}

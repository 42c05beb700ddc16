// Package servers is for clouds that have only single machines and no groups of them. An update of the
// cluster starts each missing machine, and records in its labels what it was made of. Machines that
// would be made of something else now are marked, and stay until a roll ends them; the update that
// follows starts their successors.
//
// A cloud provides a Fleet: how it lists, starts, labels and ends a server. From these follow the
// resource kind of its groups, the lists of machines and the functions of a roll.
//
// It must not know any platform.
package servers

import (
	"context"
	"time"

	"kops.local/kops/internal/engine/resource"
)

// Server is one machine as its cloud lists it.
type Server struct {
	// ID is the cloud's, and never given to another server. Name is the name of its node.
	ID, Name string
	// Group is the instance group; empty if the server belongs to none.
	Group string
	// Labels are all of its labels.
	Labels map[string]string
	// Made is what it was made of, by field of the spec, such as spec.machineType.
	Made map[string]string
	// State is the cloud's term. Starting, Running and Ending are what it means; a server that is none
	// of them has stopped, but is still a member of its group.
	State                     string
	Starting, Running, Ending bool
	// Protected servers cannot be ended until the user allows it. Only End reads it.
	Protected bool

	// Uses are references to what it uses, such as its network.
	Uses      []resource.Value
	Addresses []string
	Zone      string
	Created   time.Time
}

// Group is the desired state of an instance group's servers, or its observed state.
type Group struct {
	Cluster, Name string
	// Least and Most bound the number of servers: an autoscaler may start more than Least. In an
	// observed group, both are the number of servers that it counts.
	Least, Most int
	// Labels are the labels of each server, such as those by which List finds it, except those in
	// which the fleet keeps its records. All others are removed.
	Labels map[string]string
	// Made is what new servers are made of, by field of the spec.
	Made     map[string]string
	UserData resource.Content
	// Uses is what the servers of an observed group use, which is deleted after them.
	Uses []resource.Value
}

// Launch is what a new server needs in addition to its group.
type Launch struct {
	// Name is unique among all servers.
	Name     string
	Labels   map[string]string
	UserData string
}

// Fleet says how a cloud's servers are reached with a client C, and how its resource kind, a group of
// servers, is declared with a struct T.
type Fleet[T, C any] struct {
	// List lists the servers of a cluster or, unless group is empty, of one of its groups. Servers
	// that have ended may be missing.
	List func(ctx context.Context, c C, cluster, group string) ([]Server, error)
	// Start starts one server with its labels, so that List finds each server that exists. If a
	// server has that name already, it returns an error of class fault.Taken. Where names are not
	// unique, it cannot, and List should have a new server at once.
	Start func(ctx context.Context, c C, of *T, l Launch) error
	// Label replaces the labels of a server, which are valid labels of Kubernetes: a cloud that takes
	// less, such as only tags, encodes them, in List, too. The class of its error is fault.Gone if the
	// server is gone.
	Label func(ctx context.Context, c C, s Server, labels map[string]string) error
	// End ends a server, and returns when it holds nothing that others wait for, such as a disk. It
	// is not an error if the server is gone.
	End func(ctx context.Context, c C, s Server) error
	// Group returns what a declared object says of its servers; Observed is the reverse.
	Group    func(*T) Group
	Observed func(Group) *T
	// Name returns the name of a new server of a group, which no server had before: a new server is a
	// new node. taken has the names of the group's servers, with those that are being started. Calls
	// for different groups may overlap. nil: the group's name and a random number.
	Name func(g Group, taken []string) string
	// Pause waits, or returns the context's error; nil: clock.Sleep.
	Pause func(context.Context, time.Duration) error
}

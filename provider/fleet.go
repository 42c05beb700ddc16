package provider

import (
	"context"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
	"kops.local/kops/provider/value"
)

// Fleet is for platforms that have single machines, and no groups that start and replace them. It says
// how the platform lists, starts, labels and ends a server; Kind, Machines and Roll follow from this.
// An update of the cluster starts missing servers, and records in the labels of each what it was made
// of. If it would be made of something else now, it is marked as outdated until a roll ends it.
//
// T is the struct of the kind, a group of servers. Package fakecloud is an example.
type Fleet[T any] struct {
	// List lists the servers of a cluster or, unless group is empty, of one of its groups. Servers
	// that have ended may be missing.
	List func(ctx context.Context, cluster, group string) ([]Server, error)
	// Start starts one server with its labels, so that List finds each server that exists. If a
	// server has that name already, it returns an error of the class kops.Taken. Where names are not
	// unique, it cannot, and List should have a new server at once.
	Start func(ctx context.Context, of *T, l Launch) error
	// Label replaces the labels of a server, which are valid labels of Kubernetes: a platform that
	// takes less, such as only tags, encodes them, in List, too. The class of its error is kops.Gone if
	// the server is gone.
	Label func(ctx context.Context, s Server, labels map[string]string) error
	// End ends a server, and returns when it holds nothing that others wait for, such as a disk. It
	// is not an error if the server is gone.
	End func(ctx context.Context, s Server) error
	// Group returns the servers that a desired resource describes; Observed is the reverse.
	Group    func(*T) ServerGroup
	Observed func(ServerGroup) *T
	// Name returns the name of a new server of a group, which no server had before: a new server is a
	// new node. taken has the names of the group's servers, including those that are being started.
	// Calls for different groups may overlap. nil: the group's name and a random number.
	Name func(g ServerGroup, taken []string) string
}

// Server is one machine as its platform lists it.
type Server struct {
	// ID is the platform's, and never given to another server. Name is the name of its node.
	ID, Name string
	// Group is the instance group; empty if the server belongs to none.
	Group string
	// Labels are all of its labels.
	Labels map[string]string
	// Made is what it was made of, by field of the spec, such as spec.machineType.
	Made map[string]string
	// State is the platform's term. Starting, Running and Ending are its meaning; otherwise, the
	// server has stopped, but is still a member of its group.
	State                     string
	Starting, Running, Ending bool
	// Protected servers cannot be ended until the user allows it. Only End reads it.
	Protected bool

	// Uses are references to what it uses, such as its network.
	Uses      []value.Value
	Addresses []string
	Zone      string
	Created   time.Time
}

// ServerGroup is the desired state of an instance group's servers, or its observed state.
type ServerGroup struct {
	Cluster, Name string
	// Least and Most bound the number of servers: an autoscaler may start more than Least. In an
	// observed group, both are the number of servers that it counts.
	Least, Most int
	// Labels are the labels of each server, such as those by which List finds it, except those in
	// which the fleet keeps its records. All others are removed.
	Labels map[string]string
	// Made is what new servers are made of, by field of the spec.
	Made     map[string]string
	UserData value.Content
	// Uses is what the servers of an observed group use, which is deleted after them.
	Uses []value.Value
}

// Launch is the input of a new server, except its group's.
type Launch struct {
	// Name is unique among all servers.
	Name     string
	Labels   map[string]string
	UserData string
}

// Kind returns the kind of the fleet's groups: base with all functions. base has a Name, and may have
// a Title, a Phase, and a Key other than the instance group's name. machines are the names of the fields
// of T that machines are made of, and others those of further fields that may change.
func (f *Fleet[T]) Kind(base Kind[T], machines, others []string) *Kind[T] {
	k := f.inside().Kind(*base.inside(), machines, others)
	update := k.Update[0]
	base.Key, base.Group, base.MadeOf, base.Vacant, base.Holds, base.Updates = k.Key, k.Group, k.MadeOf, k.Vacant, k.Holds, update.Fields
	base.List = func(ctx context.Context, s Scope) ([]*T, error) { return k.List(ctx, client{}, resource.Scope(s)) }
	base.Create = func(ctx context.Context, want *T) error { return k.Create(ctx, client{}, want) }
	base.Ready = func(ctx context.Context, made *T) error { return k.Ready(ctx, client{}, made) }
	base.Update = func(ctx context.Context, have, want *T) error { return update.Set(ctx, client{}, have, want) }
	base.Delete = func(ctx context.Context, have *T) error { return k.Delete(ctx, client{}, have) }
	return &base
}

// Machines lists the servers as the Machines function of a Platform.
func (f *Fleet[T]) Machines(ctx context.Context, c *api.Cluster, groups []*api.InstanceGroup) ([]MachineGroup, error) {
	all, err := f.inside().Fleet().Machines(ctx, session(), c, groups)
	var out []MachineGroup
	for _, g := range all {
		one := MachineGroup{Name: g.Name, Target: g.Target, Trouble: g.Trouble}
		for _, m := range g.Machines {
			one.Machines = append(one.Machines, Machine(m))
		}
		out = append(out, one)
	}
	return out, err
}

// Roll returns the functions that replace servers.
func (f *Fleet[T]) Roll() Roll {
	r := f.inside().Fleet().Roll
	on := func(do func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error) func(context.Context, *api.Cluster, Machine) error {
		return func(ctx context.Context, c *api.Cluster, m Machine) error {
			return do(ctx, session(), c, platform.Machine(m))
		}
	}
	return Roll{Surge: r.Surge, Detach: on(r.Detach), Terminate: on(r.Terminate),
		Drift: func(ctx context.Context, c *api.Cluster, list []Machine) (map[string]Drift, error) {
			asked := make([]platform.Machine, len(list))
			for i, m := range list {
				asked[i] = platform.Machine(m)
			}
			drifts, err := r.Drift(ctx, session(), c, nil, asked)
			out := map[string]Drift{}
			for name, d := range drifts {
				out[name] = driftOf(d)
			}
			return out, err
		}}
}

// As sets the value that target points to, if that has the internal type.
func (f *Fleet[T]) As(target any) bool {
	t, ok := target.(**servers.Fleet[T, client])
	if ok {
		*t = f.inside()
	}
	return ok
}

func session() *platform.Session { return &platform.Session{Client: client{}} }

// inside converts the fleet to the internal type.
func (f *Fleet[T]) inside() *servers.Fleet[T, client] {
	out := &servers.Fleet[T, client]{
		List: func(ctx context.Context, _ client, cluster, group string) ([]servers.Server, error) {
			list, err := f.List(ctx, cluster, group)
			out := make([]servers.Server, len(list))
			for i, s := range list {
				out[i] = servers.Server(s)
			}
			return out, err
		},
		Start: func(ctx context.Context, _ client, of *T, l servers.Launch) error { return f.Start(ctx, of, Launch(l)) },
		Label: func(ctx context.Context, _ client, s servers.Server, labels map[string]string) error {
			return f.Label(ctx, Server(s), labels)
		},
		End:      func(ctx context.Context, _ client, s servers.Server) error { return f.End(ctx, Server(s)) },
		Group:    func(o *T) servers.Group { return servers.Group(f.Group(o)) },
		Observed: func(g servers.Group) *T { return f.Observed(ServerGroup(g)) },
	}
	if f.Name != nil {
		out.Name = func(g servers.Group, taken []string) string { return f.Name(ServerGroup(g), taken) }
	}
	return out
}

package provider

import (
	"context"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
)

// Roll holds the functions of a platform that replace machines. Each function is idempotent. A
// nil function is not supported, and a rolling update does without it.
type Roll struct {
	// Surge is how many machines more than its size a group has during a roll, where neither
	// the group nor the cluster says.
	Surge int
	// InPlace says that machines are changed, and never replaced.
	InPlace bool
	// Refills says that a group by itself makes another machine in the place of one that is
	// detached or ended; otherwise an update of the cluster makes it.
	Refills bool
	// Made returns the fields that machines were created from, by machine name; it leaves out
	// machines whose fields are unknown.
	Made func(context.Context, *api.Cluster, []Machine) (map[string]Made, error)
	// Detach has the group count a machine no longer, which goes on to serve.
	Detach func(context.Context, *api.Cluster, Machine) error
	// Deregister takes a machine out of the load balancers, and returns when they no longer send
	// it requests.
	Deregister func(context.Context, *api.Cluster, Machine) error
	// Terminate terminates a machine; it is not an error if the machine is gone.
	Terminate func(context.Context, *api.Cluster, Machine) error
}

// Made is what a platform made a machine of.
type Made struct {
	// Config is the hash of the node configuration that the machine was started with.
	Config string
	// Wanted is that with which it would be started now; empty when the platform cannot tell.
	Wanted string
	// Changes are what the platform would do otherwise now, but for the node configuration.
	Changes []Change
}

// Change is one difference between a machine as it was made and as it would be made now.
type Change struct {
	// Field is the spec's, such as spec.machineType, or the platform's word where no field says it.
	Field      string
	Have, Want string
}

// Started is what the text of Cluster.Start with which a machine was started tells, in
// comparison with the one that its group has now.
func Started(have, want string) Made { return madeOf(platform.Started(have, want)) }

// Note adds a change, if there is one.
func (m *Made) Note(field, have, want string) {
	if have != want {
		m.Changes = append(m.Changes, Change{field, have, want})
	}
}

// A platform that knows single machines and no groups of them tells by labels what each was
// made of: Labels are those of a new machine, whose digest is of all that it is made of. An
// update makes the machines that lack, and has the others marked by Mark; those are
// Outdated, and a roll ends them one after the other.

// Digest is a label's value for what machines are made of, such as type, image and script.
func Digest(parts ...string) string { return servers.Digest(parts...) }

// Labels are those of a new machine of a group.
func Labels(group, digest string) map[string]string { return servers.Labels(group, digest) }

// Mark returns the labels of a machine after an update that would make it of digest.
func Mark(have map[string]string, digest string) map[string]string {
	return servers.Mark(have, digest)
}

// Outdated reports whether a machine is marked.
func Outdated(labels map[string]string) bool { return servers.Outdated(labels) }

// inside is the roll as it serves inside.
func (r Roll) inside() platform.Roll {
	out := platform.Roll{Surge: r.Surge, InPlace: r.InPlace, Refills: r.Refills,
		Detach: change(r.Detach), Deregister: change(r.Deregister), Terminate: change(r.Terminate)}
	if r.Made != nil {
		out.Made = func(ctx context.Context, _ *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, list []platform.Machine) (map[string]platform.Made, error) {
			asked := make([]Machine, len(list))
			for i, m := range list {
				asked[i] = Machine(m)
			}
			made, err := r.Made(ctx, c, asked)
			out := map[string]platform.Made{}
			for name, m := range made {
				one := platform.Made{Config: m.Config, Wanted: m.Wanted}
				for _, x := range m.Changes {
					one.Changes = append(one.Changes, platform.Change(x))
				}
				out[name] = one
			}
			return out, err
		}
	}
	return out
}

func madeOf(m platform.Made) Made {
	out := Made{Config: m.Config, Wanted: m.Wanted}
	for _, x := range m.Changes {
		out.Changes = append(out.Changes, Change(x))
	}
	return out
}

// change is a change of one machine as it serves inside; nil stays nil.
func change(f func(context.Context, *api.Cluster, Machine) error) func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, _ *platform.Session, c *api.Cluster, m platform.Machine) error {
		return f(ctx, c, Machine(m))
	}
}

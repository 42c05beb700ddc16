package provider

import (
	"context"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
)

// Roll holds the functions of a platform that replace machines. Each function is idempotent. A
// nil function is not supported, and a rolling update works without it.
type Roll struct {
	// Surge is how many machines more than its size a group has during a roll, if neither
	// the group nor the cluster sets it.
	Surge int
	// InPlace means that machines are changed in place, and never replaced.
	InPlace bool
	// Refills means that a group automatically replaces a machine that is detached or terminated;
	// otherwise an update of the cluster creates the replacement.
	Refills bool
	// Drift returns the fields that machines were created from, by machine name; it leaves out
	// machines whose fields are unknown.
	Drift func(context.Context, *api.Cluster, []Machine) (map[string]Drift, error)
	// Detach removes a machine, which continues to serve, from its group's count.
	Detach func(context.Context, *api.Cluster, Machine) error
	// Deregister removes a machine from the load balancers, and returns when they no longer send
	// it requests.
	Deregister func(context.Context, *api.Cluster, Machine) error
	// Terminate terminates a machine; it is not an error if the machine is gone.
	Terminate func(context.Context, *api.Cluster, Machine) error
}

// Drift describes how a platform created a machine.
type Drift struct {
	// Config is the hash of the node configuration that the machine was started with.
	Config string
	// Wanted is the hash with which it would be started now; empty if the platform does not know.
	Wanted string
	// Changes are the differences from how the platform would create it now, except for the node configuration.
	Changes []Change
}

// Change is one difference between a machine as it was created and as it would be created now.
type Change struct {
	// Field is the field of the spec, such as spec.machineType, or the platform's term if there is no field.
	Field      string
	Have, Want string
}

// CompareUserData compares the Cluster.Start text with which a machine was started with the
// current one of its group.
func CompareUserData(have, want string) Drift { return driftOf(platform.CompareUserData(have, want)) }

// Add adds a change, if there is one.
func (m *Drift) Add(field, have, want string) {
	if have != want {
		m.Changes = append(m.Changes, Change{field, have, want})
	}
}

// inside converts the roll to the internal type.
func (r Roll) inside() platform.Roll {
	out := platform.Roll{Surge: r.Surge, InPlace: r.InPlace, Refills: r.Refills,
		Detach: change(r.Detach), Deregister: change(r.Deregister), Terminate: change(r.Terminate)}
	if r.Drift != nil {
		out.Drift = func(ctx context.Context, _ *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, list []platform.Machine) (map[string]platform.Drift, error) {
			asked := make([]Machine, len(list))
			for i, m := range list {
				asked[i] = Machine(m)
			}
			made, err := r.Drift(ctx, c, asked)
			out := map[string]platform.Drift{}
			for name, m := range made {
				one := platform.Drift{Config: m.Config, Wanted: m.Wanted}
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

func driftOf(m platform.Drift) Drift {
	out := Drift{Config: m.Config, Wanted: m.Wanted}
	for _, x := range m.Changes {
		out.Changes = append(out.Changes, Change(x))
	}
	return out
}

// change converts a function on one machine to the internal type; nil stays nil.
func change(f func(context.Context, *api.Cluster, Machine) error) func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, _ *platform.Session, c *api.Cluster, m platform.Machine) error {
		return f(ctx, c, Machine(m))
	}
}

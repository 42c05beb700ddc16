package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

const (
	// pollPeriod is the interval at which the keeper's progress is polled.
	pollPeriod = 100 * time.Millisecond
	// drainTime and endTime are timeouts: the keeper's own limits, plus the time that a
	// busy host needs to keep them.
	drainTime = 20 * time.Second
	endTime   = keeper.EndTime + time.Minute
	// missingTime is how long a cluster may have no keeper until the standby takes over.
	missingTime = 10 * time.Second
)

// Detach makes the keeper create a replacement for a machine of a group, while the machine keeps
// serving. A machine with a volume is rejected: its successor would write there, too.
func (c *Client) Detach(ctx context.Context, cluster, name string) error {
	return c.changeDesired(ctx, cluster, func(s site.Site) error {
		h, m, err := findMachine(s, name)
		if err != nil {
			return err
		}
		if m == nil {
			return fault.New(fault.Gone, "detach the machine %s: it does not exist", name)
		}
		if i := slices.IndexFunc(m.Folders, func(f machine.Folder) bool { return strings.HasPrefix(f.Host, s.Path(site.Volumes)+"/") }); i >= 0 {
			return fault.Wrap(fault.Permanent, fmt.Errorf("detach the machine %s: its replacement would write to the volume %s as well", name, m.Folders[i].Host),
				"terminate it first; its replacement takes over the volume")
		}
		return h.Mark(name, machine.MarkDetached)
	})
}

// Deregister makes the load balancers drain a machine, and returns when they have, or
// when the remaining connections have nowhere else to go.
func (c *Client) Deregister(ctx context.Context, cluster, name string) error {
	serves := false
	err := c.changeDesired(ctx, cluster, func(s site.Site) error {
		h, m, err := findMachine(s, name)
		if err != nil || m == nil {
			return err
		}
		list, err := keeper.Balancers(s)
		if err != nil {
			return err
		}
		serves = m.Running && slices.ContainsFunc(list, func(b keeper.Balancer) bool { return slices.Contains(b.Groups, m.Group) })
		if !serves {
			return nil
		}
		return h.Mark(name, machine.MarkDeregistered)
	})
	if err != nil || !serves {
		return err
	}
	return c.waitFor(ctx, cluster, name, "deregister", drainTime, func(m *machine.Machine) bool { return !m.Running || m.Marks.Contains(machine.MarkDrained) })
}

// Terminate makes the keeper shut a machine down and remove it, and returns when it is gone.
func (c *Client) Terminate(ctx context.Context, cluster, name string) error {
	err := c.changeDesired(ctx, cluster, func(s site.Site) error {
		h, m, err := findMachine(s, name)
		if err != nil || m == nil {
			return err
		}
		return h.Mark(name, machine.MarkEnding)
	})
	if err != nil {
		return err
	}
	return c.waitFor(ctx, cluster, name, "terminate", endTime, func(*machine.Machine) bool { return false })
}

// waitFor waits until a machine is in the requested state, or is gone.
func (c *Client) waitFor(ctx context.Context, cluster, name, verb string, limit time.Duration, is func(*machine.Machine) bool) error {
	s, err := c.site(cluster)
	if err != nil {
		return err
	}
	for begun := c.Now(); ; {
		_, m, err := findMachine(s, name)
		if err != nil || m == nil || is(m) {
			return err
		}
		waited := c.Now().Sub(begun)
		if _, kept := keeper.Alive(s); !kept && waited > missingTime {
			return fault.Wrap(fault.NotYet, fmt.Errorf("%s the machine %s: the process that runs the machines of %s has stopped, for example because the host was restarted", verb, name, cluster),
				"run: kops update cluster "+cluster+" --yes")
		}
		if waited > limit {
			return fault.New(fault.NotYet, "%s the machine %s: not done after %s; see %s", verb, name, limit, keeper.LogFile(s))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s the machine %s: %w", verb, name, context.Cause(ctx))
		case <-time.After(pollPeriod):
		}
	}
}

// findMachine returns a machine, or nil if it does not exist.
func findMachine(s site.Site, name string) (machine.Host, *machine.Machine, error) {
	h, all, err := machinesOf(s)
	if i := slices.IndexFunc(all, func(m machine.Machine) bool { return m.Name == name }); i >= 0 {
		return h, &all[i], err
	}
	return h, nil, err
}

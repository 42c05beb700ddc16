package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/store/clusterstore"
)

// memberTime is the time limit for new members to join, on machines that have yet to be
// created, and for others to leave.
const memberTime = 15 * time.Minute

// peersOf returns the peers that are to become the members of an etcd cluster; nil if the
// platform cannot name them.
func peersOf(m *pipeline.Modelled, name string) []string {
	peers := m.Provider.Traits.Model.Peers
	i := slices.IndexFunc(m.Cluster.Spec.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
	if peers == nil || i < 0 {
		return nil
	}
	return peers(m.Cluster.Spec.Spec.EtcdClusters[i])
}

// writeSeats passes the names of the future members' peers to the managers of each etcd cluster,
// before they read the number of members.
func (c *Client) writeSeats(ctx context.Context, m *pipeline.Modelled, o UpdateOptions) error {
	if c.cfg.Offline || o.Phase != "" && o.Phase != "cluster" {
		return nil // their spec is not written either, or is written by others
	}
	archives, err := c.etcdArchives(ctx, newCluster(m.Cluster), "")
	if err != nil {
		return err
	}
	for _, a := range archives {
		want := peersOf(m, a.name)
		have, err := etcd.ReadSeats(ctx, a.store)
		if err == nil && want != nil && !slices.Equal(have, want) {
			err = etcd.WriteSeats(ctx, a.store, want)
		}
		if err != nil {
			return fmt.Errorf("etcd %s: %w", a.name, err)
		}
	}
	return nil
}

// memberMoves returns a message for each etcd cluster whose members differ from the spec's; empty
// if there are none.
func (c *Client) memberMoves(ctx context.Context, m *pipeline.Modelled) ([]string, error) {
	archives, err := c.etcdArchives(ctx, newCluster(m.Cluster), "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range archives {
		want := peersOf(m, a.name)
		s, err := etcd.ReadStatus(ctx, a.store)
		if err != nil {
			return nil, err
		}
		if s == nil || want == nil { // its status, or the names of its peers, are unknown
			continue
		}
		var names []string
		for _, x := range s.Members {
			if !x.Learner {
				names = append(names, x.Name)
			}
		}
		slices.Sort(names)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(names, want) {
			out = append(out, fmt.Sprintf("etcd %s has the members %s instead of %s", a.name, strings.Join(names, ", "), strings.Join(want, ", ")))
		}
	}
	return out, nil
}

// applyDeletion applies a plan that deletes. If etcd members have to move, everything
// else is done first, and machines and disks are deleted once no member needs them.
func (c *Client) applyDeletion(ctx context.Context, progress *reporter, lease *clusterstore.Lease, m *pipeline.Modelled, p *pipeline.Planned) error {
	if p.Plan.Empty() {
		return nil
	}
	if err := p.Prepare(ctx); err != nil {
		return err
	}
	left, err := c.memberMoves(ctx, m)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return apply(ctx, progress, lease, p, "apply")
	}
	again := func(prune bool) error {
		have, err := p.Desired.Observe(ctx, false)
		if err != nil {
			return err
		}
		p, err := have.Plan(prune)
		if err != nil {
			return err
		}
		return apply(ctx, progress, lease, p, "apply")
	}
	if err := again(false); err != nil {
		return err
	}
	if err := c.awaitMembers(ctx, progress, m); err != nil {
		return err
	}
	return again(true)
}

func unsettledError(cluster string, left []string) error {
	return fault.Wrap(fault.NotYet, fmt.Errorf("nothing was deleted, because the control plane did not move within %s: %s", memberTime, strings.Join(left, "; ")),
		"see the reason with `kops etcd status "+cluster+"`, and continue with an update with option:Prune")
}

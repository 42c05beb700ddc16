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

// memberTime is how long new members may take to join, on machines that are yet to be
// made, and others to leave.
const memberTime = 15 * time.Minute

// peersOf are the peers that shall be the members of an etcd cluster; nil where the
// platform cannot name them.
func peersOf(m *pipeline.Modelled, name string) []string {
	peers := m.Provider.Traits.Model.Peers
	i := slices.IndexFunc(m.Cluster.Spec.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
	if peers == nil || i < 0 {
		return nil
	}
	return peers(m.Cluster.Spec.Spec.EtcdClusters[i])
}

// seats names to the managers of each etcd cluster the peers that shall be its members,
// before they read how many those are.
func (c *Client) seats(ctx context.Context, m *pipeline.Modelled, o UpdateOptions) error {
	if c.cfg.Offline || o.Phase != "" && o.Phase != "cluster" {
		return nil // their spec is not written either, or by others
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

// moving says of each etcd cluster that has other members than the spec names which do; empty for none.
func (c *Client) moving(ctx context.Context, m *pipeline.Modelled) ([]string, error) {
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
		if s == nil || want == nil { // nobody has told of it, or nobody can be told
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

// pruned carries out a plan that deletes. Where members of etcd are to move, everything
// else is done first, and machines and disks are deleted once no member needs them.
func (c *Client) pruned(ctx context.Context, told *call, lease *clusterstore.Lease, m *pipeline.Modelled, p *pipeline.Planned) error {
	if p.Plan.Empty() {
		return nil
	}
	if err := p.Prepare(ctx); err != nil {
		return err
	}
	left, err := c.moving(ctx, m)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return apply(ctx, told, lease, p, "apply")
	}
	again := func(prune bool) error {
		have, err := p.Wanted.Observe(ctx, false)
		if err != nil {
			return err
		}
		p, err := have.Plan(prune)
		if err != nil {
			return err
		}
		return apply(ctx, told, lease, p, "apply")
	}
	if err := again(false); err != nil {
		return err
	}
	if err := c.settled(ctx, told, m); err != nil {
		return err
	}
	return again(true)
}

func notSettled(cluster string, left []string) error {
	return fault.Wrap(fault.NotYet, fmt.Errorf("nothing was deleted, because the control plane did not move within %s: %s", memberTime, strings.Join(left, "; ")),
		"see the reason with `kops etcd status "+cluster+"`, and continue with an update with option:Prune")
}

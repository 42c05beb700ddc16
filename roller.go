package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/drive"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store/clusterstore"
)

// roller runs a rollout of one cluster.
type roller struct {
	*pipeline.Checkup
	c        *Client
	progress *reporter
	o        RolloutOptions
	lease    *clusterstore.Lease
	// chosen are the names of the requested groups; nil means all.
	chosen []string
	// updating is held during an update of the cluster; only one runs at a time.
	updating sync.Mutex
}

// newRoller opens the platform of a cluster and finds the credentials of its API server.
func (c *Client) newRoller(ctx context.Context, progress *reporter, o RolloutOptions) (*roller, error) {
	if o.Life <= 0 {
		o.Life = rolloutLife
	}
	opened, err := c.openPlatform(ctx, progress)
	if err != nil {
		return nil, err
	}
	k := &pipeline.Checkup{Opened: opened}
	if !o.CloudOnly {
		if k, err = opened.Checkup(ctx, pipeline.Reach(o.ReachOptions), o.Life); err != nil {
			return nil, err
		}
	}
	r := &roller{Checkup: k, c: c, progress: progress, o: o}
	return r, r.check()
}

// check refuses what the platform does not support, and finds the requested groups.
func (r *roller) check() error {
	p := r.Provider
	if p.Fleet.Machines == nil || p.Fleet.Roll.Terminate == nil && !p.Fleet.Roll.InPlace {
		return fault.New(fault.Permanent, "this version of kops cannot replace the machines of a cluster on %s", p.Title)
	}
	var err error
	r.chosen, err = pipeline.Chosen(r.Cluster, r.o.Groups, r.o.Roles)
	return err
}

// roll continues an unfinished rollout, or begins one, and drives it to its end.
func (r *roller) roll(ctx context.Context) (*Rollout, error) {
	state, file, err := r.c.storedRollout(ctx, r.progress.cluster)
	if err != nil {
		return nil, err
	}
	file.lease = r.lease
	continued := state != nil && state.Ended.IsZero()
	if continued && r.o.Instance != "" {
		return nil, &Refused{fault.Wrap(fault.Conflict, fmt.Errorf("a rollout of cluster %s is not finished", r.progress.cluster),
			"to finish it: kops rolling-update cluster "+r.progress.cluster+" --yes; to end it: kops rolling-update abort "+r.progress.cluster)}
	}
	if continued {
		r.o.CloudOnly = state.Options.CloudOnly
	}
	cfg, err := r.config(ctx, file)
	if err != nil {
		return nil, err
	}
	d := drive.Start(ctx, cfg)
	defer d.Stop()
	if !continued {
		if state, err = r.begin(ctx, d); err != nil || state == nil {
			return nil, err
		}
	} else {
		state.Options.Ask, state.Options.Interactive = r.o.Ask != nil, r.o.Interactive
	}
	file.setRollout(state.ID)
	if err := r.progress.report(Event{Kind: EventRollout, Rollout: rolloutOf(state), Continued: continued}); err != nil {
		return nil, err
	}
	last, err := d.Run(ctx, *state)
	if err != nil {
		err = fmt.Errorf("%w; the rollout of %s is saved; to continue it: kops rolling-update cluster %s --yes", err, r.progress.cluster, r.progress.cluster)
	}
	return rolloutOf(&last), err
}

// begin creates the state of a new rollout; nil if there is nothing to do.
func (r *roller) begin(ctx context.Context, d *drive.Driver) (*roll.State, error) {
	if err := r.progress.phase("observe"); err != nil {
		return nil, err
	}
	v, err := d.First(ctx)
	if err != nil {
		return nil, err
	}
	if !v.API && !r.o.CloudOnly {
		return nil, fault.Wrap(fault.NotYet, errors.New("the API server does not answer, so no machine can be replaced safely"), "find out why: kops validate cluster; or continue without it: option:CloudOnly")
	}
	w, err := r.observe(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := r.staleMachines(ctx, w)
	if err != nil {
		return nil, err
	}
	plans := r.plansOf(machines)
	id, err := r.c.newID()
	if err != nil {
		return nil, err
	}
	r.backwards(ctx, plans, machines)
	s := roll.New(id, r.o.rollOptions(), plans, v)
	if len(s.Groups) == 0 {
		return nil, nil
	}
	if err := r.warn(ctx, s); err != nil {
		return nil, err
	}
	return &s, r.progress.phase("roll")
}

// warn reports groups without room. If that is unknown, the rollout begins without a warning.
func (r *roller) warn(ctx context.Context, s roll.State) error {
	lacks, err := r.shortages(ctx, s)
	if err != nil || len(lacks) == 0 {
		return ctx.Err()
	}
	var found finding.List
	for _, l := range lacks {
		found = append(found, finding.Finding{Object: "InstanceGroup/" + l.Group, Rule: precheck.Room, Message: l.Message, Remedy: l.Remedy, Warning: true})
	}
	return r.progress.report(Event{Kind: EventChecked, Findings: found})
}

// backwards sets, for the groups with machines to roll, the revision to go back to if
// the first machine fails. If the revisions cannot be read, the rollout continues without.
func (r *roller) backwards(ctx context.Context, plans []roll.Plan, machines []stale.Machine) {
	h, err := r.c.history(ctx, r.Cluster.Spec.Name, r.Provider.Effects)
	if err != nil {
		return
	}
	for i := range plans {
		p := &plans[i]
		if len(p.Machines) == 0 {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(machines), func(m stale.Machine) bool { return m.Group != p.Name })
		if n, err := h.revisionFor(ctx, r.Cluster, r.Cluster.Group(p.Name), of); err == nil {
			p.Revision = n
		}
	}
}

// config returns the configuration of a driver.
func (r *roller) config(ctx context.Context, file *rolloutFile) (drive.Config, error) {
	p, cl := r.Provider, r.Cluster
	cfg := drive.Config{Cluster: cl.Spec, Groups: cl.Groups, Platform: r.platform(), Hash: r.hash, Save: file.save,
		Requests: file.requests, RequestsSaved: file.deleteRead, Ask: r.o.Ask, OnChange: r.reportChange, HTTP: r.c.cfg.World.HTTP, Now: r.c.cfg.World.Now, Sleep: r.c.cfg.World.Sleep}
	if r.o.CloudOnly {
		return cfg, nil
	}
	var err error
	if cfg.Client, err = r.Kubernetes(ctx); err != nil {
		return cfg, err
	}
	cfg.Server = r.Server
	if archives, err := r.c.etcdArchives(ctx, newCluster(cl), ""); err == nil { // otherwise the pods of its members are used
		cfg.Etcd = func(ctx context.Context) (drive.EtcdReport, error) { return r.etcdReport(ctx, archives) }
	}
	if p.Fleet.BootRecord != nil {
		cfg.Starts = func(ctx context.Context, silent []platform.Machine) map[string]health.Start {
			return r.Starts(ctx, silent, maxStarts)
		}
	}
	return cfg, nil
}

// etcdReport returns what etcd's managers recently reported about their members. A cluster whose
// members differ from the spec's, as while they move, is omitted, and so is one with kOps' own
// managers, which report nothing.
func (r *roller) etcdReport(ctx context.Context, archives []etcdArchive) (drive.EtcdReport, error) {
	out := drive.EtcdReport{}
	for i, a := range archives {
		s, err := etcd.ReadStatus(ctx, a.store)
		if err != nil {
			return nil, err
		}
		groups := seatsOf(r.Provider.Traits.Model.Peers, r.Cluster.Spec.Spec.EtcdClusters[i])
		if s == nil || groups == nil || a.status(s, r.c.cfg.World.Now()).Old {
			continue
		}
		members := map[string]bool{}
		for _, m := range s.Members {
			g, known := groups[m.Name]
			if !known {
				members = nil
				break
			}
			members[g] = m.Healthy && !m.Learner
		}
		if members != nil {
			out[a.name] = members
		}
	}
	return out, nil
}

// seatsOf returns the instance groups of the members of an etcd cluster, by the names of their
// peers; nil if the names are unknown, or a group has several members.
func seatsOf(peers func(api.EtcdClusterSpec) []string, e api.EtcdClusterSpec) map[string]string {
	if peers == nil {
		return nil
	}
	out, seen := map[string]string{}, map[string]bool{}
	for i, name := range peers(e) {
		g := e.EtcdMembers[i].InstanceGroup
		if g == nil || seen[*g] {
			return nil
		}
		out[name], seen[*g] = *g, true
	}
	return out
}

// platform returns the platform functions that a driver needs.
func (r *roller) platform() drive.Platform {
	p, cl := r.Provider, r.Cluster
	on := func(f func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error) func(context.Context, platform.Machine) error {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, m platform.Machine) error { return f(ctx, r.Session, cl.Spec, m) }
	}
	out := drive.Platform{
		Machines: func(ctx context.Context) ([]platform.MachineGroup, error) {
			return p.Fleet.Machines(ctx, r.Session, cl.Spec, cl.Groups)
		},
		Detach: on(p.Fleet.Roll.Detach), Deregister: on(p.Fleet.Roll.Deregister), Terminate: on(p.Fleet.Roll.Terminate),
	}
	if !p.Fleet.Roll.Refills {
		out.Update = r.update
	}
	return out
}

// update creates the missing machines of a group, by an update of the cluster that is
// limited to the group.
func (r *roller) update(ctx context.Context, group string) error {
	r.updating.Lock()
	defer r.updating.Unlock()
	quiet := &reporter{cluster: r.progress.cluster}
	o := UpdateOptions{Apply: true, Groups: []string{group}, prefetch: &sync.WaitGroup{}}
	defer o.prefetch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := r.c.model(ctx, quiet, o)
	if err != nil {
		return err
	}
	_, p, err := planned(ctx, quiet, m, o)
	if err != nil {
		return err
	}
	return apply(ctx, quiet, r.lease, p, "apply")
}

// reportChange reports a change of the rollout.
func (r *roller) reportChange(before, after roll.State) {
	_ = r.progress.report(Event{Kind: EventRollout, Rollout: rolloutOf(&after)}) // an error of On does not stop the rollout
}

// hash returns the hash of the node configuration that the machines of a group should run.
func (r *roller) hash(ctx context.Context, group string) (string, error) {
	hash, err := "", error(fault.New(fault.Gone, "the cluster has no group of that name"))
	if g := r.Cluster.Group(group); g != nil {
		hash, err = r.ConfigHash(ctx, g)
	}
	if fault.Is(err, fault.Gone) {
		err = fault.New(fault.Permanent, "the state store has no node configuration of group %s", group)
	}
	return hash, err
}

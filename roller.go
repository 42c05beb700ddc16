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

// roller makes a rollout of one cluster.
type roller struct {
	*pipeline.Checkup
	c     *Client
	told  *call
	o     RolloutOptions
	lease *clusterstore.Lease
	// chosen are the names of the groups that are asked for; nil: all are.
	chosen []string
	// updating is held while the cluster is updated, of which one is under way at a time.
	updating sync.Mutex
}

// newRoller opens the platform of a cluster and finds the credentials of its API server.
func (c *Client) newRoller(ctx context.Context, told *call, o RolloutOptions) (*roller, error) {
	if o.Life <= 0 {
		o.Life = rolloutLife
	}
	if err := c.withoutGossip(ctx, told.cluster); err != nil {
		return nil, err
	}
	opened, err := c.examined(ctx, told)
	if err != nil {
		return nil, err
	}
	k := &pipeline.Checkup{Opened: opened}
	if !o.CloudOnly {
		if k, err = opened.Checkup(ctx, pipeline.Reach(o.ReachOptions), o.Life); err != nil {
			return nil, err
		}
	}
	r := &roller{Checkup: k, c: c, told: told, o: o}
	return r, r.check()
}

// check refuses what the platform cannot do, and finds the groups that are asked for.
func (r *roller) check() error {
	p := r.Provider
	if p.Machines == nil || p.Roll.Terminate == nil && !p.Roll.InPlace {
		return fault.New(fault.Permanent, "this version of kops cannot replace the machines of a cluster on %s", p.Title)
	}
	var err error
	r.chosen, err = pipeline.Chosen(r.Cluster, r.o.Groups, r.o.Roles)
	return err
}

// roll continues the rollout that has not ended, or begins one, and drives it to its end.
func (r *roller) roll(ctx context.Context) (*Rollout, error) {
	state, file, err := r.c.storedRollout(ctx, r.told.cluster)
	if err != nil {
		return nil, err
	}
	file.lease = r.lease
	continued := state != nil && state.Ended.IsZero()
	if continued && r.o.Instance != "" {
		return nil, &Refused{fault.Wrap(fault.Conflict, fmt.Errorf("a rollout of cluster %s is not finished", r.told.cluster),
			"to finish it: kops rolling-update cluster "+r.told.cluster+" --yes; to end it: kops rolling-update abort "+r.told.cluster)}
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
	file.of(state.ID)
	if err := r.told.tell(Event{Kind: EventRollout, Rollout: rolloutOf(state), Continued: continued}); err != nil {
		return nil, err
	}
	last, err := d.Run(ctx, *state)
	if err != nil {
		err = fmt.Errorf("%w; the rollout of %s is saved; to continue it: kops rolling-update cluster %s --yes", err, r.told.cluster, r.told.cluster)
	}
	return rolloutOf(&last), err
}

// begin makes the state of a new rollout; nil when there is nothing to do.
func (r *roller) begin(ctx context.Context, d *drive.Driver) (*roll.State, error) {
	if err := r.told.phase("observe"); err != nil {
		return nil, err
	}
	v, err := d.First(ctx)
	if err != nil {
		return nil, err
	}
	if !v.API && !r.o.CloudOnly {
		return nil, fault.Wrap(fault.NotYet, errors.New("the API server does not answer, so no machine can be replaced safely"), "find out why: kops validate cluster; or continue without it: option:CloudOnly")
	}
	w, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := r.judge(ctx, w)
	if err != nil {
		return nil, err
	}
	plans := r.plansOf(machines)
	id, err := r.c.newID()
	if err != nil {
		return nil, err
	}
	r.backwards(ctx, plans, machines)
	s := roll.New(id, r.o.rolling(), plans, v)
	if len(s.Groups) == 0 {
		return nil, nil
	}
	if err := r.warn(ctx, s); err != nil {
		return nil, err
	}
	return &s, r.told.phase("roll")
}

// warn tells of groups that lack room. Where that cannot be seen, the rollout begins without.
func (r *roller) warn(ctx context.Context, s roll.State) error {
	lacks, err := r.shortages(ctx, s)
	if err != nil || len(lacks) == 0 {
		return ctx.Err()
	}
	var found finding.List
	for _, l := range lacks {
		found = append(found, finding.Finding{Object: "InstanceGroup/" + l.Group, Rule: precheck.Room, Message: l.Message, Remedy: l.Remedy, Warning: true})
	}
	return r.told.tell(Event{Kind: EventChecked, Findings: found})
}

// backwards says of the groups with machines to roll which revision they go back to when
// the first fails. A rollout goes without where the revisions cannot be read.
func (r *roller) backwards(ctx context.Context, plans []roll.Plan, machines []stale.Machine) {
	h, err := r.c.history(ctx, r.Cluster.Spec.Name)
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

// config is what a driver needs.
func (r *roller) config(ctx context.Context, file *rolloutFile) (drive.Config, error) {
	p, cl := r.Provider, r.Cluster
	cfg := drive.Config{Cluster: cl.Spec, Groups: cl.Groups, Platform: r.platform(), Hash: r.hash, Save: file.save,
		Wishes: file.wishes, Heard: file.heard, Ask: r.o.Ask, Tell: r.tell, HTTP: r.c.cfg.World.HTTP, Now: r.c.cfg.World.Now, Sleep: r.c.cfg.World.Sleep}
	if r.o.CloudOnly {
		return cfg, nil
	}
	var err error
	if cfg.Client, err = r.Kubernetes(ctx); err != nil {
		return cfg, err
	}
	cfg.Server = r.Server
	if archives, err := r.c.etcdArchives(ctx, newCluster(cl), ""); err == nil { // else the pods of its members tell
		cfg.Etcd = func(ctx context.Context) (drive.EtcdTold, error) { return r.etcdTold(ctx, archives) }
	}
	if p.BootRecord != nil {
		cfg.Look = func(ctx context.Context, silent []platform.Machine) map[string]health.Start {
			return r.Starts(ctx, silent, mostStarts)
		}
	}
	return cfg, nil
}

// etcdTold is what the managers of etcd told of its members lately. A cluster whose members
// are others than the spec's, as while they move, is left out, and so is one of kOps' own
// managers, which tell nothing.
func (r *roller) etcdTold(ctx context.Context, archives []etcdArchive) (drive.EtcdTold, error) {
	out := drive.EtcdTold{}
	for i, a := range archives {
		s, err := etcd.ReadStatus(ctx, a.store)
		if err != nil {
			return nil, err
		}
		groups := seatsOf(r.Provider.Traits.Model.Peers, r.Cluster.Spec.Spec.EtcdClusters[i])
		if s == nil || groups == nil || a.status(s, r.c.cfg.World.Now()).Old {
			continue
		}
		told := map[string]bool{}
		for _, m := range s.Members {
			g, known := groups[m.Name]
			if !known {
				told = nil
				break
			}
			told[g] = m.Healthy && !m.Learner
		}
		if told != nil {
			out[a.name] = told
		}
	}
	return out, nil
}

// seatsOf are the instance groups of the members of an etcd cluster, by the names of their
// peers; nil where these are not known, or a group has several.
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

// platform is what a driver needs of the platform.
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
			return p.Machines(ctx, r.Session, cl.Spec, cl.Groups)
		},
		Detach: on(p.Roll.Detach), Deregister: on(p.Roll.Deregister), Terminate: on(p.Roll.Terminate),
	}
	if !p.Roll.Refills {
		out.Update = r.update
	}
	return out
}

// update makes the machines that a group lacks, by an update of the cluster that is
// limited to the group.
func (r *roller) update(ctx context.Context, group string) error {
	r.updating.Lock()
	defer r.updating.Unlock()
	quiet := &call{cluster: r.told.cluster}
	o := UpdateOptions{Apply: true, Groups: []string{group}, prefetch: &sync.WaitGroup{}}
	defer o.prefetch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := r.c.modelled(ctx, quiet, o)
	if err != nil {
		return err
	}
	_, p, err := planned(ctx, quiet, m, o)
	if err != nil {
		return err
	}
	return apply(ctx, quiet, r.lease, p, "apply")
}

// tell tells of a change of the rollout.
func (r *roller) tell(before, after roll.State) {
	_ = r.told.tell(Event{Kind: EventRollout, Rollout: rolloutOf(&after)}) // what is told keeps no rollout from its end
}

// hash is that of the node configuration that the machines of a group are to run.
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

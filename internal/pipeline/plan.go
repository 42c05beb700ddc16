package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/journal"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store/clusterstore"
)

// Planned is the plan for a cluster.
type Planned struct {
	Desired
	Plan *plan.Plan
	// Prepare is called before the first step of Apply; it may be nil.
	Prepare func(context.Context) error
	// Aside means that the plan creates something ahead of the cluster's objects, and does not
	// apply the objects themselves.
	Aside bool
	// inUse are the hashes of the node configurations that machines run; nil if they are not known.
	inUse []string
	// applied are the objects as they were last applied; nil if they were not read.
	applied *appliedObjects
}

// Plan compares the desired state with the existing objects.
func (o *Observed) Plan(prune bool) (*Planned, error) {
	made, err := plan.Make(o.Graph, o.Have, o.Kinds, plan.Options{Prune: prune, Scope: o.scope})
	if err != nil {
		return nil, err
	}
	return &Planned{Desired: o.Desired, Plan: made}, nil
}

// Removal returns a plan that deletes all observed objects that are not wanted. A wanted object
// that does not exist cannot be kept.
func (o *Observed) Removal() (*Planned, error) {
	w := *o
	w.Graph = o.Graph.Select(func(n resource.Node) bool { return exists(n, o.Have) })
	made, err := plan.Make(w.Graph, o.Have, o.Kinds, plan.Options{Prune: true})
	if err != nil {
		return nil, err
	}
	return &Planned{Desired: o.Desired, Plan: made}, nil
}

// exists reports whether a shared object was observed.
func exists(n resource.Node, have plan.Snapshot) bool {
	found := false
	for _, o := range have[n.Address.Kind] {
		n.Kind.Schema().Identities(o.Got, func(id string) { found = found || id == n.Adopt })
	}
	return found
}

// GroupRemoval returns a plan that deletes what only the machines of some groups need. It is based
// on existing objects, so that a group can be deleted whose machines could not be created.
func (o *Observed) GroupRemoval(groups ...*api.InstanceGroup) (*Planned, error) {
	mine := plan.Snapshot{}
	for _, group := range groups {
		files := o.folderOf(group)
		for _, k := range o.Kinds {
			kind := k.KindName()
			for _, obj := range o.Have[kind] {
				if f, ok := obj.Got.(*managedfile.File); k.Group(obj.Got) == group.Name || ok && f.Store == files.Store && strings.HasPrefix(f.Key, files.Prefix) {
					mine[kind] = append(mine[kind], obj)
				}
			}
		}
	}
	made, err := plan.Make(&graph.Graph{}, mine, o.Kinds, plan.Options{Prune: true})
	if err != nil {
		return nil, err
	}
	return &Planned{Desired: o.Desired, Plan: made}, nil
}

// folderOf returns the folder with the files for a group's machines.
func (o *Opened) folderOf(g *api.InstanceGroup) managedfile.Location {
	l := o.World.Buckets.Location(o.Places.Base.URL)
	l.Prefix += layout.GroupFolder(string(g.Spec.Role), g.Name)
	return l
}

// ExecuteOptions specify how a plan is carried out.
type ExecuteOptions struct {
	// Guard, if not nil, is called before each step; an error prevents it.
	Guard func(context.Context) error
	// Patience is how long a step is retried; 0 means the executor's default.
	Patience time.Duration
	// Report, if not nil, is called for each event.
	Report func(exec.Event)
}

// Execute carries out the plan, with a journal in the cache folder.
func (p *Planned) Execute(ctx context.Context, o ExecuteOptions) error {
	w := p.World
	out, err := w.journalFile(p.Cluster.Spec.Name)
	if err != nil {
		return err
	}
	scopes := observe.Scopes(p.Cluster.Spec.Name, p.Graph, false)
	x := &exec.Executor{
		Client: p.clients(p.Session.Client),
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return p.observer(p.newClient()).List(ctx, k, scopes(k.KindName()))
		},
		Journal: journal.New(out, w.Now), Limits: w.Limits, Patience: o.Patience, Guard: o.Guard, Report: o.Report,
		Clock: exec.Clock{Now: w.Now, Sleep: w.Sleep, Jitter: w.jitter},
	}
	err = x.Run(ctx, p.Plan)
	if err != nil && ctx.Err() != nil {
		err = fault.Wrap(fault.Of(err), err, "finished changes are kept; the next update or deletion continues from there")
	}
	return errors.Join(err, out.Close())
}

// farewell limits how long recording the result of a run may take, even if the run was stopped.
const farewell = 10 * time.Second

// Apply carries out the plan under a lease, and records the result.
func (p *Planned) Apply(ctx context.Context, lease *clusterstore.Lease, report func(exec.Event)) error {
	digest, err := p.Plan.Digest()
	if err != nil {
		return err
	}
	failed := p.checkSecrets(ctx)
	if failed == nil && p.Prepare != nil {
		failed = p.Prepare(ctx)
	}
	if failed == nil {
		failed = p.keepConfigs(ctx)
	}
	if failed == nil {
		failed = p.Execute(ctx, ExecuteOptions{Guard: lease.Hold, Report: report})
	}
	r := clusterstore.Revision{Result: "done", Message: p.Plan.Summary().Applied()}
	if !p.Aside {
		r.Plan = digest
	}
	if failed != nil {
		r.Result, r.Message = "failed", failed.Error()
	}
	if failed != nil && ctx.Err() != nil {
		r.Result = "interrupted"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if _, err := p.World.Store.Append(ctx, lease, p.Cluster, r); err != nil {
		return errors.Join(failed, fmt.Errorf("record the revision: %w", err))
	}
	return failed
}

// checkSecrets checks the secrets of the platform that are to replace those of the cluster.
func (p *Planned) checkSecrets(ctx context.Context) error {
	isReplaced := slices.ContainsFunc(p.Plan.Steps, func(s plan.Step) bool {
		f, ok := s.Want.(*managedfile.File)
		return ok && s.Op == plan.Update && strings.HasSuffix(f.Key, layout.PlatformSecrets)
	})
	if p.Provider.CheckSecrets == nil || !isReplaced {
		return nil
	}
	return p.Provider.CheckSecrets(ctx, p.Session)
}

// journalFile opens the journal of a run; without a cache folder it is discarded.
func (w *World) journalFile(cluster string) (io.WriteCloser, error) {
	dir := w.CacheFolder("journal")
	if dir == "" {
		return nowhere{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the journal: %w", err)
	}
	name := fmt.Sprintf("%s-%s.jsonl", cluster, w.Now().UTC().Format("20060102T150405.000"))
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return f, nil
}

// nowhere discards a journal.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

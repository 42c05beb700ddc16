package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
)

// StaleOptions specify what machines are compared with.
type StaleOptions struct {
	// All judges every machine exactly. Otherwise the desired state is only read if the platform,
	// or a node, indicates a difference.
	All bool
}

// Stale returns how the observed machines differ from the desired state in the store.
func (o *Opened) Stale(ctx context.Context, w health.World, opts StaleOptions) ([]stale.Machine, error) {
	in := stale.In{Groups: w.Groups, Effects: o.Provider.Effects, Machines: w.Machines, Nodes: w.API.Nodes, InPlace: o.Provider.Fleet.Roll.InPlace}
	var asked []platform.Machine
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			if m.Outdated || opts.All {
				asked = append(asked, m)
			}
		}
	}
	var err error
	if in.Drifts, err = o.drifts(ctx, asked); err != nil {
		return nil, err
	}
	var groups []string
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			if (opts.All || in.Concerns(m, o.reportsAllOutdated())) && !slices.Contains(groups, m.Group) {
				groups = append(groups, m.Group)
			}
		}
	}
	in.Wanted = map[string]stale.Wanted{}
	if !opts.All && o.reportsAllOutdated() {
		if groups, err = o.addReported(ctx, &in, groups); err != nil {
			return nil, err
		}
	}
	found, err := o.runningByGroup(ctx, groups, o.readApplied)
	if err != nil {
		return nil, err
	}
	for name, a := range found {
		in.Wanted[name] = stale.Wanted{Config: a.Config, Files: a.Files}
	}
	return o.judge(ctx, in)
}

// addReported adds the configurations that the platform reports as wanted, and those that machines
// run instead, and returns the groups for which it reports none. The stored sets hold all of them
// in few objects, whereas each group's own is a separate object.
func (o *Opened) addReported(ctx context.Context, in *stale.In, groups []string) (rest []string, err error) {
	wanted := map[string]string{}
	var hashes []string
	for _, g := range groups {
		if want, runs := in.OutdatedConfigs(g); want != "" {
			wanted[g] = want
			hashes = append(append(hashes, want), runs...)
		}
	}
	slices.Sort(hashes)
	if in.Kept, err = o.World.Store.NodeConfigs(ctx, o.Cluster.Spec.Name, slices.Compact(hashes)...); err != nil {
		return nil, err
	}
	for _, g := range groups {
		if text := in.Kept[wanted[g]]; text != nil {
			in.Wanted[g] = stale.Wanted{Config: text}
		} else {
			rest = append(rest, g)
		}
	}
	return rest, nil
}

// reportsAllOutdated reports whether the platform reports all machines as outdated that were
// created differently.
func (o *Opened) reportsAllOutdated() bool {
	return o.Provider.Fleet.Roll.Drift != nil && !o.Provider.Fleet.Roll.InPlace
}

// drifts queries the platform for what machines were created with.
func (o *Opened) drifts(ctx context.Context, machines []platform.Machine) (made map[string]platform.Drift, err error) {
	ask := o.Provider.Fleet.Roll.Drift
	if ask == nil || len(machines) == 0 {
		return nil, nil
	}
	err = fault.Retry(ctx, o.World.Sleep, func() (err error) {
		made, err = ask(ctx, o.Session, o.Cluster.Spec, o.Cluster.Groups, machines)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the specifications that machines were created from: %w", err)
	}
	return made, nil
}

// judge reads the earlier configurations that judging needs, and judges.
func (o *Opened) judge(ctx context.Context, in stale.In) ([]stale.Machine, error) {
	past, err := o.World.Store.NodeConfigs(ctx, o.Cluster.Spec.Name, in.MissingConfigs()...)
	if err != nil {
		return nil, err
	}
	if in.Kept == nil {
		in.Kept = past
	}
	maps.Copy(in.Kept, past)
	return stale.Judge(in), nil
}

// reader reads a file below the cluster's folder; if it does not exist, the error is of class
// fault.Gone.
type reader func(ctx context.Context, key string) ([]byte, error)

// readApplied reads a file as the last update wrote it.
func (o *Opened) readApplied(ctx context.Context, key string) ([]byte, error) {
	if o.Places.Base.Store == nil {
		return nil, fault.New(fault.Gone, "%s cannot be reached", o.Places.Base.URL)
	}
	data, _, err := o.Places.Base.Store.Get(ctx, key)
	return data, err
}

// ConfigHash returns the hash of the node configuration that the last update wrote for the
// machines
// of a group; the error is of class fault.Gone if there is none.
func (o *Opened) ConfigHash(ctx context.Context, g *api.InstanceGroup) (string, error) {
	text, err := o.readApplied(ctx, layout.NodeConfig(string(g.Spec.Role), g.Name))
	if err != nil {
		return "", fmt.Errorf("read the configuration of the group %s: %w", g.Name, err)
	}
	return nodeconfig.Hash(text), nil
}

// filesAtOnce is how many groups' files are read concurrently.
const filesAtOnce = 16

// runningByGroup returns what machines of groups run, from the files that read returns.
func (o *Opened) runningByGroup(ctx context.Context, groups []string, read reader) (map[string]stale.Applied, error) {
	var mu sync.Mutex
	out := map[string]stale.Applied{}
	all, part := errgroup.WithContext(ctx)
	all.SetLimit(filesAtOnce)
	for _, name := range groups {
		g := o.Cluster.Group(name)
		if g == nil || g.IsBastion() {
			continue
		}
		all.Go(func() error {
			a, err := o.runningFiles(part, g, read)
			if err != nil && !fault.Is(err, fault.Gone) { // without the file, nothing is compared
				return fmt.Errorf("read the desired configuration of the machines of group %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = a
			return nil
		})
	}
	return out, all.Wait()
}

func (o *Opened) runningFiles(ctx context.Context, g *api.InstanceGroup, read reader) (stale.Applied, error) {
	config, err := read(ctx, layout.NodeConfig(string(g.Spec.Role), g.Name))
	if err != nil {
		return stale.Applied{}, err
	}
	out := stale.Applied{Config: config, Files: map[string]string{}}
	var mu sync.Mutex
	all, part := errgroup.WithContext(ctx)
	for _, key := range o.manifests(config) {
		all.Go(func() error {
			text, err := read(part, key)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			out.Files[key] = labels.Digest(text)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return stale.Applied{Config: config}, err
	}
	return out, nil
}

// manifests returns the keys of the manifests that a node configuration names. If this version
// cannot read it, there are none.
func (o *Opened) manifests(config []byte) []string {
	c, err := nodeconfig.Parse(config)
	if err != nil {
		return nil
	}
	urls := slices.Clone(c.EtcdManifests)
	if c.ChannelsManifest != "" {
		urls = append(urls, c.ChannelsManifest)
	}
	var out []string
	for _, u := range urls {
		if key, ok := strings.CutPrefix(u, o.Places.Base.URL+"/"); ok {
			out = append(out, key)
		}
	}
	for _, m := range c.StaticManifests {
		out = append(out, m.Path)
	}
	return out
}

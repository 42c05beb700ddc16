package kops

import (
	"context"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/upgrade"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store/clusterstore"
)

// UpgradeOptions configure an upgrade of a cluster.
type UpgradeOptions struct {
	// To is the target version of Kubernetes, such as 1.36.3, or a minor version such as 1.36, for
	// which the channel recommends a release; "" means one step that the channel recommends.
	To string
	// KubernetesVersion is like To, but a version older than the cluster's leaves the cluster's unchanged.
	KubernetesVersion string
	// Channel is used instead of the spec's channel, and replaces it in the spec.
	Channel string
	// Apply changes the objects of the cluster; otherwise the changes are only returned.
	Apply bool
	// SkipChecks are the names of pre-checks to skip.
	SkipChecks []string
	ReachOptions
	// On receives the events of the upgrade.
	On On
}

// Upgrade is the way of a cluster to another version of Kubernetes.
type Upgrade struct {
	// From is the cluster's current version in its spec.
	From string `json:"from"`
	// Hops are the steps, each of one minor version at most. With Apply the first was
	// written into the objects; the others wait for ReconcileCluster, or the next upgrade.
	Hops []UpgradeHop `json:"hops"`
	// Findings are the problems of the first hop; findings that are not warnings stop it.
	Findings finding.List `json:"findings,omitempty"`
	// Warnings are probable problems of the resulting objects.
	Warnings finding.List `json:"warnings,omitempty"`
}

// UpgradeHop is one step of an upgrade.
type UpgradeHop struct {
	// Version is the Kubernetes version after it.
	Version string          `json:"version"`
	Changes []UpgradeChange `json:"changes"`
	// Etcd are the etcd clusters whose version changes with it, because their spec does not set one.
	Etcd []UpgradeChange `json:"etcd,omitempty"`
}

// UpgradeChange is a property of an object that changes: Item is Cluster, InstanceGroup/NAME,
// or the name of an etcd cluster.
type UpgradeChange struct {
	Item     string `json:"item"`
	Property string `json:"property"`
	Old      string `json:"old"`
	New      string `json:"new"`
}

// PreChecks lists the names of the checks before an upgrade.
func PreChecks() []string { return precheck.Names() }

// Upgrade plans the upgrade of a cluster to a later version of Kubernetes, checks for
// problems, and with Apply writes the first hop into its objects. Only the objects change: an
// update and a rollout, or ReconcileCluster, apply them to machines. Problems that stop the
// upgrade are an error, Refused, with all findings.
func (c *Client) Upgrade(ctx context.Context, name string, o UpgradeOptions) (*Upgrade, error) {
	if err := precheck.CheckSkipped(o.SkipChecks); err != nil {
		return nil, err
	}
	progress := &reporter{cluster: name, on: o.On}
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, err
	}
	if err := validate.Gossip(cl.Spec).Err(); err != nil {
		return nil, err
	}
	in, err := c.upgradeFrom(ctx, cl, o)
	if err != nil {
		return nil, err
	}
	hops, err := c.hops(in)
	u := &Upgrade{From: cl.Spec.Spec.KubernetesVersion, Hops: publicHops(hops)}
	if err != nil || len(hops) == 0 {
		return u, err
	}
	if u.Findings, err = c.checkHop(ctx, progress, cl, hops[0].Version, o); err != nil || !o.Apply {
		return u, err
	}
	if err := blockingError(u.Findings); err != nil {
		return u, err
	}
	if err := c.storeHops(ctx, cl, hops); err != nil {
		return u, err
	}
	u.Warnings, err = c.writeHop(ctx, cl, hops[0])
	return u, err
}

// upgradeFrom collects the input from which the hops are derived.
func (c *Client) upgradeFrom(ctx context.Context, cl *Cluster, o UpgradeOptions) (in upgrade.Input, err error) {
	if cl.Spec.Annotations[api.AnnotationManagement] == "imported" {
		return in, &Refused{fmt.Errorf("cluster %s was imported and not created by kops, so kops cannot upgrade it", cl.Spec.Name)}
	}
	channel := cl.Spec.Spec.Channel
	if o.Channel != "" {
		channel = o.Channel
	}
	if channel == "" {
		channel = versions.Stable
	}
	ch, err := c.world.Channel(ctx, channel)
	if err != nil {
		return in, err
	}
	in = upgrade.Input{Cluster: cl.Spec, Groups: cl.Groups, Platform: &c.world.PlatformOf(cl.Spec).Traits, Channel: ch, ChannelName: channel, Kops: c.cfg.Version, To: o.To}
	if o.KubernetesVersion != "" {
		if in.To, err = newerVersion(o.KubernetesVersion, cl.Spec.Spec.KubernetesVersion); err != nil {
			return in, err
		}
	}
	if upgrade.NeedsFacts(in) {
		in.Facts, err = c.machineFacts(ctx, cl)
	}
	return in, err
}

// newerVersion returns the newer of a requested version and the current one.
func newerVersion(asked, has string) (string, error) {
	v, err := versions.ParseVersion(asked)
	if err != nil {
		return "", fmt.Errorf("option:KubernetesVersion: %w", err)
	}
	if now, err := versions.ParseVersion(has); err == nil && v.LT(now) {
		return now.String(), nil
	}
	return v.String(), nil
}

// machineFacts queries the platform for its machine types.
func (c *Client) machineFacts(ctx context.Context, cl *Cluster) (*facts.Cloud, error) {
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err != nil {
		return nil, err
	}
	f, err := opened.FactsOf(ctx, nil)
	if err != nil {
		return nil, err
	}
	return f.Of(string(cl.Spec.CloudProviderID())), nil
}

// hops returns the steps of an upgrade. It refuses one that this program cannot begin or complete, and
// a cluster that stays at a version that no update applies.
func (c *Client) hops(in upgrade.Input) ([]upgrade.Hop, error) {
	v := validate.Versions{Kops: c.cfg.Version, Kubernetes: in.Cluster.Spec.KubernetesVersion, Channel: in.Channel, RunObsolete: c.cfg.RunObsolete, RunTooNew: c.cfg.RunTooNew}
	oldest := semver.MustParse(validate.OldestKubernetes)
	if now, err := versions.ParseVersion(v.Kubernetes); err == nil && !versions.AtLeast(now, oldest.Major, oldest.Minor-1) {
		return nil, refuseVersion(v)
	}
	if asked, ok := in.Least(); ok && asked.GE(oldest) && asked.Major == oldest.Major {
		end := v
		end.Kubernetes, end.RunObsolete = asked.String(), true // the upgrade may end at a later patch version
		if err := refuseVersion(end); err != nil {
			return nil, err
		}
	}
	hops, err := upgrade.Hops(in)
	if err != nil {
		return nil, err
	}
	if len(hops) > 0 {
		v.Kubernetes = hops[len(hops)-1].Version
	}
	return hops, refuseVersion(v)
}

// refuseVersion refuses a version of Kubernetes that this program does not support.
func refuseVersion(v validate.Versions) error {
	l := slices.DeleteFunc(validate.Guard(v), func(f finding.Finding) bool { return f.Path != "spec.kubernetesVersion" })
	if err := l.Err(); err != nil {
		return &Refused{err}
	}
	return nil
}

// storeHops stores an upgrade of several hops, and deletes another one.
func (c *Client) storeHops(ctx context.Context, cl *Cluster, hops []upgrade.Hop) error {
	if len(hops) < 2 {
		return c.store.DropUpgrade(ctx, cl.Spec.Name)
	}
	u := clusterstore.Upgrade{Holder: c.holder()}
	for _, h := range hops {
		u.Hops = append(u.Hops, h.Version)
	}
	return c.store.PutUpgrade(ctx, cl.Spec.Name, u)
}

// writeHop writes a hop into the objects.
func (c *Client) writeHop(ctx context.Context, cl *Cluster, h upgrade.Hop) (finding.List, error) {
	ch := &change{stored: cl, now: cl.stored().Clone()}
	ch.now.Spec, ch.now.Groups = upgrade.Apply(ch.now.Spec, ch.now.Groups, h.Changes)
	w, err := c.keep(ctx, ch, ch.now.Spec)
	return w.Warnings, err
}

func publicHops(hops []upgrade.Hop) []UpgradeHop {
	out := []UpgradeHop{}
	for _, h := range hops {
		shown := UpgradeHop{Version: h.Version, Changes: []UpgradeChange{}}
		for _, c := range h.Changes {
			shown.Changes = append(shown.Changes, UpgradeChange(c))
		}
		for _, e := range h.Etcd {
			shown.Etcd = append(shown.Etcd, UpgradeChange{e.Name, "Version", e.Old, e.New})
		}
		out = append(out, shown)
	}
	return out
}

// blockingError returns the error for findings of pre-checks that prevent an upgrade.
func blockingError(l finding.List) error {
	if err := l.Err(); err != nil {
		return &Refused{fault.Wrap(fault.NotYet, err, "to skip a check, specify its name: option:SkipChecks")}
	}
	return nil
}

// remainingHops lists the hops of an unfinished upgrade that a cluster has not taken yet.
func (c *Client) remainingHops(ctx context.Context, cl *Cluster) ([]string, error) {
	u, err := c.store.Upgrade(ctx, cl.Spec.Name)
	if err != nil || u == nil {
		return nil, err
	}
	return upgrade.Remaining(u.Hops, cl.Spec.Spec.KubernetesVersion), nil
}

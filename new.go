package kops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/api/create"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/versions"
)

// NewClusterRequest describes a new cluster as the user specifies it.
type NewClusterRequest struct {
	create.Options
	// Facts, if set, are used instead of querying the cloud.
	Facts *Facts
	// Target is "terraform" if Terraform will create the cluster.
	Target string
	// On receives the events of the call.
	On On
}

// NewCluster infers the objects of a new cluster. Nothing is stored.
func (c *Client) NewCluster(ctx context.Context, r NewClusterRequest) (*Cluster, error) {
	if _, err := c.Clusters().Get(ctx, r.ClusterName); err == nil {
		return nil, fault.New(fault.Conflict, "cluster %q already exists; use 'kops update cluster' to apply changes to it", r.ClusterName)
	} else if !fault.Is(err, fault.Gone) {
		return nil, err
	}
	if r.CloudProvider == "" {
		r.CloudProvider = c.guessPlatform()
	}
	if r.CloudProvider == "" {
		return nil, fmt.Errorf("the state store %s does not determine the cloud; specify it with option:CloudProvider: %s", c.cfg.Store.URL, diag.Or(c.world.Platforms()))
	}
	p, err := c.world.Targeted(api.CloudProviderID(r.CloudProvider), r.Target)
	if err != nil {
		return nil, err
	}
	if r.ConfigBase == "" {
		r.ConfigBase = c.world.ConfigBase(r.ClusterName)
	}
	ch, err := c.world.Channel(ctx, r.Channel)
	if err != nil {
		return nil, err
	}
	w := c.newClusterWorld(&p.Platform, ch, r.Facts.internal())
	if w.Facts == nil && p.Lookup.NewClusterFacts != nil {
		if err := (&reporter{cluster: r.ClusterName, on: r.On}).phase("look up"); err != nil {
			return nil, err
		}
		if w.Facts, err = c.newClusterFacts(ctx, p, r, w); err != nil {
			return nil, err
		}
	}
	spec, groups, findings := newcluster.New(r.Options, w)
	if err := c.guardNew(spec.Spec.KubernetesVersion, ch); err != nil {
		return nil, err
	}
	if err := findings.Err(); err != nil {
		return nil, err
	}
	return &Cluster{Spec: spec, Groups: groups, Warnings: findings}, nil
}

// newClusterFacts queries the platform for the facts that a new cluster needs.
func (c *Client) newClusterFacts(ctx context.Context, p platform.Provider, r NewClusterRequest, w newcluster.World) (*facts.Facts, error) {
	var cfg platform.Config
	for _, zone := range slices.Concat(r.Zones, r.ControlPlaneZones) {
		cfg.Region = cmp.Or(cfg.Region, p.Network.Region(zone))
	}
	session, err := p.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return p.Lookup.NewClusterFacts(ctx, session, r.Options, w)
}

// guessPlatform returns the platform that matches the state store, or "".
func (c *Client) guessPlatform() string {
	var all []*traits.Traits
	for i := range c.world.Clouds {
		all = append(all, &c.world.Clouds[i].Traits)
	}
	return string(newcluster.PlatformOf(all, c.cfg.Store.URL, c.cfg.IsSet))
}

// newClusterWorld returns the environment for creating a description.
func (c *Client) newClusterWorld(p *platform.Platform, ch *versions.Channel, f *facts.Facts) newcluster.World {
	return newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Platforms: c.world.Platforms(), Facts: f, Channel: ch, KopsVersion: c.cfg.Version, Features: c.world.Features}
}

// NewGroupRequest describes a new instance group as the user specifies it.
type NewGroupRequest struct {
	Cluster, Name, Role string
	Subnets, Zones      []string
}

// NewGroup infers a new instance group. Nothing is stored.
func (c *Client) NewGroup(ctx context.Context, r NewGroupRequest) (*Cluster, *api.InstanceGroup, error) {
	cl, err := c.Clusters().Get(ctx, r.Cluster)
	if err != nil {
		return nil, nil, err
	}
	if cl.Group(r.Name) != nil {
		return nil, nil, fault.New(fault.Conflict, "instancegroup %q already exists; change it with kops edit instancegroup", r.Name)
	}
	ch, err := c.world.Channel(ctx, cl.Spec.Spec.Channel)
	if err != nil {
		return nil, nil, err
	}
	g, findings := newcluster.NewGroup(newcluster.GroupOptions{Name: r.Name, Role: r.Role, Subnets: r.Subnets, Zones: r.Zones}, cl.Spec, c.newClusterWorld(c.world.PlatformOf(cl.Spec), ch, nil))
	return cl, g, findings.Err()
}

// AddGroup is AddGroups for one group.
func (s Clusters) AddGroup(ctx context.Context, cl *Cluster, g *api.InstanceGroup) (Written, error) {
	return s.AddGroups(ctx, cl, g)
}

// AddGroups stores new instance groups; Written describes the first. Control plane
// groups get etcd members, and the number of members must be odd.
func (s Clusters) AddGroups(ctx context.Context, cl *Cluster, groups ...*api.InstanceGroup) (Written, error) {
	ch := &change{stored: cl, now: cl.stored().Clone()}
	var beside []api.Object
	for i, g := range groups {
		if exists, err := ch.apply(g, false); err != nil || exists {
			return Written{}, fmt.Errorf("instancegroup %q already exists", g.Name)
		}
		if i > 0 {
			beside = append(beside, g)
		}
	}
	seated := slices.ContainsFunc(groups, (*api.InstanceGroup).IsControlPlane) && addMembers(ch.now)
	if seated {
		beside = append(beside, ch.now.Spec)
	}
	if left := groupsWithoutMember(ch.now); len(left) > 0 && !seated && groups[0].IsControlPlane() {
		return Written{}, fmt.Errorf("with %s, etcd would have an even number of members, which tolerates no more failures than one member fewer; create two control plane groups at once, as in `kops create ig %s NAME --role control-plane --edit=false`, or replace a group with option:InPlaceOf",
			strings.Join(left, ", "), groups[0].Name)
	}
	w, err := s.c.keep(ctx, ch, groups[0], beside...)
	w.Created = true
	return w, err
}

// AddGroupText stores a new instance group that is given as text.
func (s Clusters) AddGroupText(ctx context.Context, cl *Cluster, text []byte) (Written, error) {
	g, _, err := compat.DecodeOne[*api.InstanceGroup](text, compat.Options{Exact: true})
	if err != nil {
		return Written{}, err
	}
	return s.c.Clusters().AddGroup(ctx, cl, g)
}

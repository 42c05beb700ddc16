package provider

import (
	"cmp"
	"context"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// apiName is the name under which rate limits count calls.
const apiName = "provider"

// As sets the value that target points to, if that has the internal type.
func (p *Platform) As(target any) bool {
	t, ok := target.(*platform.Provider)
	if ok {
		*t = p.inside()
	}
	return ok
}

// inside converts the platform to the internal type.
func (p *Platform) inside() platform.Provider {
	out := platform.Provider{
		Platform: p.about(),
		Limits:   map[string]int{apiName: cmp.Or(p.Calls, 16)},
		Connect: func(context.Context, platform.Config) (*platform.Session, error) {
			return &platform.Session{Client: client{}}, nil
		},
		Lookup: platform.Lookup{
			Facts: func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
				return p.facts(), nil
			},
			NewClusterFacts: func(context.Context, *platform.Session, newcluster.Options, newcluster.World) (*facts.Facts, error) {
				return p.facts(), nil
			},
		},
		Declare: platform.Declare{Model: p.model, Shared: func(c *api.Cluster) ([]resource.Node, error) {
			if p.Shared == nil {
				return nil, nil
			}
			list, err := p.Shared(c)
			return nodes(list), err
		}},
		Fleet: platform.Fleet{Roll: p.Roll.inside()},
	}
	for _, k := range p.Kinds {
		out.Kinds = append(out.Kinds, k.erase())
	}
	if p.Endpoint != nil {
		out.Lookup.Endpoint = func(ctx context.Context, _ *platform.Session, c *api.Cluster) (string, error) {
			return p.Endpoint(ctx, c)
		}
	}
	if p.Machines != nil {
		out.Fleet.Machines = p.machines
	}
	if p.BootRecord != nil {
		out.Fleet.BootRecord = func(ctx context.Context, _ *platform.Session, c *api.Cluster, m platform.Machine) (platform.BootRecord, error) {
			r, err := p.BootRecord(ctx, c, Machine(m))
			return platform.BootRecord(r), err
		}
	}
	return out
}

// about returns the properties of the platform that specs need.
func (p *Platform) about() platform.Platform {
	name := api.CloudProviderID(p.Name)
	label := func(c *api.Cluster) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[api.LabelMetalCloud] = p.Name
	}
	types := map[api.InstanceGroupRole][]traits.Type{}
	for _, role := range []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer, api.RoleNode, api.RoleBastion} {
		if p.MachineType != "" {
			types[role] = []traits.Type{{Name: p.MachineType}}
		}
	}
	return platform.Platform{
		Traits: traits.Traits{
			Name: name, Title: cmp.Or(p.Title, p.Name),
			Network:  traits.Network{NeedsNonMasquerade: true, OneRegion: true},
			Machines: traits.Machines{Types: types, Unsized: p.MachineType == "", Image: p.Image},
		},
		Stub: func(c *api.Cluster, _ string) { label(c) },
		New:  newcluster.Rules{Describe: func(b *newcluster.Builder) { label(b.Cluster) }},
	}
}

func (p *Platform) facts() *facts.Facts { return &facts.Facts{FileHashes: p.FileHashes} }

// model adds the resources of a cluster to a graph. Resources that create machines wait for the
// keys that the machines start with.
func (p *Platform) model(m platform.Model, g *graph.Graph) error {
	list, err := p.Model(&Cluster{Spec: m.Cluster, Groups: m.Groups, SSHKeys: m.SSHKeys, Start: m.UserData})
	if err != nil {
		return err
	}
	for _, n := range nodes(list) {
		if n.Kind.Group(n.Want) != "" {
			n.After = m.Keysets
		}
		if err := g.Add(n); err != nil {
			return err
		}
	}
	return nil
}

func (p *Platform) machines(ctx context.Context, _ *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	all, err := p.Machines(ctx, c, groups)
	var out []platform.MachineGroup
	for _, g := range all {
		one := platform.MachineGroup{Name: g.Name, Target: g.Target, Trouble: g.Trouble}
		for _, m := range g.Machines {
			one.Machines = append(one.Machines, platform.Machine(m))
		}
		out = append(out, one)
	}
	return out, err
}

func nodes(list []Resource) []resource.Node {
	out := make([]resource.Node, len(list))
	for i, r := range list {
		out[i] = r.node
	}
	return out
}

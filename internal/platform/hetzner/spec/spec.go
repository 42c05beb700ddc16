// Package spec defines what Hetzner Cloud is to the stages that infer, check and describe a
// cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/newcluster"
)

// Platform returns the description of Hetzner Cloud.
func Platform() platform.Platform {
	return platform.Platform{Complete: completion(), New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.Hetzner = &api.HetznerSpec{} },
	}, Traits: traits.Traits{
		Name: api.CloudHetzner, Title: "Hetzner",
		Network: traits.Network{NeedsNonMasquerade: true, OneRegion: true},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "cx23"}}, api.RoleAPIServer: {{Name: "cx23"}}, api.RoleNode: {{Name: "cx23"}}, api.RoleBastion: {{Name: "cx23"}},
		}, Image: "ubuntu-24.04"},
		Store: traits.Store{Schemes: []string{"hos"}, SchemesWith: map[string]string{"s3": "HCLOUD_TOKEN"}},
		Model: traits.Model{
			Volumes: func(c *api.Cluster, etcd, group string) traits.Volumes {
				return traits.Volumes{Provider: "hetzner", NameTag: "kops.k8s.io/instance-group=" + group,
					Tags: []string{"kops.k8s.io/cluster=" + c.Name, "kops.k8s.io/volume-role=" + etcd}}
			},
			ScalingGroups: func(_ *api.Cluster, g *api.InstanceGroup) []traits.ScalingGroup { return traits.WholeGroup(g.Name, g) },
		},
	}}
}

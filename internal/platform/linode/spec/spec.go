// Package spec defines what Linode is to the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform returns the description of Linode.
func Platform() platform.Platform {
	return platform.Platform{Complete: completion(), New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.Linode = &api.LinodeSpec{} },
	}, Validate: validate.Rules{Cluster: []validate.Rule{{Name: "private-network", Do: validate.PrivateNetwork}}}, Traits: traits.Traits{
		Name: api.CloudLinode, Title: "Linode", Feature: "Linode", Terraform: traits.Terraform{Never: true}, NameMax: 32,
		Network: traits.Network{NeedsNonMasquerade: true, NeedsSubnetRegion: true, OneRegion: true,
			RegionSubnet: func(_, region string) api.ClusterSubnetSpec {
				return api.ClusterSubnetSpec{Name: region, Region: region, Zone: region}
			}},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "g6-standard-2"}}, api.RoleAPIServer: {{Name: "g6-standard-2"}}, api.RoleNode: {{Name: "g6-standard-2"}}, api.RoleBastion: {{Name: "g6-standard-1"}},
		}, Image: "linode/ubuntu24.04"},
		Store: traits.Store{Schemes: []string{"linode"}, SchemesWith: map[string]string{"s3": "LINODE_TOKEN"}},
		Model: traits.Model{Volumes: func(c *api.Cluster, etcd, group string) traits.Volumes {
			return traits.Volumes{Provider: "linode", NameTag: "kops.k8s.io/instance-group:" + group,
				Tags: []string{"kops.k8s.io/cluster:" + c.Name, "kops.k8s.io/volume-role:" + etcd}}
		}},
	}}
}

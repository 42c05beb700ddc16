// Package spec defines what Scaleway is to the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/newcluster"
)

// Platform returns the description of Scaleway.
func Platform() platform.Platform {
	return platform.Platform{New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.Scaleway = &api.ScalewaySpec{} },
	}, Traits: traits.Traits{
		Name: api.CloudScaleway, Title: "Scaleway", Feature: "Scaleway",
		SSHKeys: traits.SSHKeys{Most: 1, Needed: true},
		Network: traits.Network{NeedsSubnets: true, NeedsNonMasquerade: true, DNS: []api.DNSType{api.DNSPublic}, OneRegion: true},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "DEV1-M"}}, api.RoleAPIServer: {{Name: "DEV1-M"}}, api.RoleNode: {{Name: "DEV1-M"}},
		}, Image: "ubuntu_noble"},
		Store: traits.Store{Schemes: []string{"scw"}},
		Model: traits.Model{Volumes: func(c *api.Cluster, etcd, group string) traits.Volumes {
			return traits.Volumes{Provider: "scaleway", NameTag: "noprefix=kops.k8s.io/instance-group=" + group,
				Tags: []string{"noprefix=kops.k8s.io/cluster=" + c.Name, "noprefix=kops.k8s.io/etcd=" + etcd, "noprefix=kops.k8s.io/role=ControlPlane"}}
		}},
	}}
}

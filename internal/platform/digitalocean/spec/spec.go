// Package spec defines what DigitalOcean is to the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform returns the description of DigitalOcean.
func Platform() platform.Platform {
	return platform.Platform{New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.DO = &api.DOSpec{} },
	}, Validate: validate.Rules{Cluster: []validate.Rule{{Name: "private-network", Do: validate.PrivateNetwork}}}, Traits: traits.Traits{
		Name: api.CloudDO, Title: "DigitalOcean", Terraform: traits.Terraform{Feature: "DOTerraform"},
		SSHKeys: traits.SSHKeys{Needed: true, NamedInstead: true},
		Network: traits.Network{NeedsNonMasquerade: true, NeedsSubnetRegion: true, DNS: []api.DNSType{api.DNSPublic}, OneRegion: true,
			RegionSubnet: func(_, region string) api.ClusterSubnetSpec {
				return api.ClusterSubnetSpec{Name: region, Region: region, Zone: region}
			}},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "s-2vcpu-4gb-amd"}}, api.RoleAPIServer: {{Name: "s-2vcpu-4gb-amd"}}, api.RoleNode: {{Name: "s-2vcpu-4gb-amd"}},
		}, Image: "ubuntu-24-04-x64", Numbered: true, BootCommand: "systemctl restart systemd-journald"},
		Store: traits.Store{Schemes: []string{"do"}},
		Model: traits.Model{Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "do", Tags: []string{"KubernetesCluster=" + names.Dashed(c.Name), "k8s-index"}, NameTag: "etcdCluster-" + etcd}
		}},
	}}
}

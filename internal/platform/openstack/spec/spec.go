// Package spec defines what OpenStack is to the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	_ "embed"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/validate"
)

// fetch reads a container with the login in the machine's configuration of the cloud.
//
//go:embed fetch.sh
var fetch string

// Platform returns the description of OpenStack.
func Platform() platform.Platform {
	return platform.Platform{Complete: completion(), New: newClusterRules(), Validate: validate.Rules{
		Cluster: []validate.Rule{{Name: "external-network", Do: checkExternalNetwork}, {Name: "cluster-autoscaler", Do: checkAutoscaler}, {Name: "storage-classes", Do: checkStorageClasses}},
	}, Traits: traits.Traits{
		Name: api.CloudOpenstack, Title: "OpenStack", Terraform: traits.Terraform{Never: true},
		SSHKeys:  traits.SSHKeys{Most: 1, Needed: true},
		Network:  traits.Network{NeedsSubnets: true, NeedsNonMasquerade: true, Split: true, BalancedAlways: true, DNS: []api.DNSType{api.DNSPublic, api.DNSPrivate}},
		Machines: traits.Machines{GPU: traits.GPUByGroup},
		Addons:   traits.Addons{DNSController: "openstack-designate", ExternalDNS: "designate", IPIPMode: "Always"},
		Store: traits.Store{Schemes: []string{"swift"}, Variables: []string{"OS_AUTH_URL", "OS_DOMAIN_ID", "OS_DOMAIN_NAME", "OS_PROJECT_DOMAIN_ID", "OS_PROJECT_DOMAIN_NAME",
			"OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_REGION_NAME", "OS_TENANT_ID", "OS_TENANT_NAME"}, Fetch: map[string]string{"swift": fetch}},
		Model: traits.Model{NodeConfig: nodeConfig, Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "openstack", NameTag: "k8s.io/etcd/" + etcd,
				Tags:  []string{"k8s.io/etcd/" + etcd, "k8s.io/role/control-plane=1", "KubernetesCluster=" + c.Name},
				Flags: map[string]string{"network-cidr": c.Spec.Networking.NetworkCIDR}}
		}},
	}}
}

func nodeConfig(c *api.Cluster, g *api.InstanceGroup, to *nodeconfig.Config) {
	if g.HasAPIServer() {
		to.Openstack = c.Spec.CloudProvider.Openstack
	}
}

func checkExternalNetwork(c *validate.Check) {
	o := c.Spec.CloudProvider.Openstack
	if o.Router != nil && o.Router.ExternalNetwork != nil {
		return
	}
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.Type == api.SubnetPublic {
			c.Bad(path+".type", string(s.Type), "needs an external network", "set spec.cloudConfig.openstack.router.externalNetwork")
		}
	})
}

func checkAutoscaler(c *validate.Check) {
	if a := c.Spec.ClusterAutoscaler; a != nil && a.Enabled != nil && *a.Enabled {
		c.Bad("spec.clusterAutoscaler.enabled", "true", "does not run on OpenStack", "set it to false")
	}
}

func checkStorageClasses(c *validate.Check) {
	o := c.Spec.CloudProvider.Openstack
	if o.BlockStorage == nil || o.BlockStorage.CreateStorageClass == nil || c.Spec.CloudConfig == nil {
		return
	}
	if m := c.Spec.CloudConfig.ManageStorageClasses; m != nil && *m != *o.BlockStorage.CreateStorageClass {
		c.Bad("spec.cloudConfig.manageStorageClasses", "", "disagrees with openstack.blockStorage.createStorageClass", "remove one of them")
	}
}

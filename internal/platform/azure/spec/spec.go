// Package spec defines what Microsoft Azure is to the stages that infer, check and describe a
// cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"cmp"
	_ "embed"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// fetch reads a container with the token of the machine's managed identity.
//
//go:embed fetch.sh
var fetch string

// Platform returns the description of Azure.
func Platform() platform.Platform {
	const feature = "Azure"
	return platform.Platform{Complete: completion(), New: newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "azure-subscription-id", Usage: "Azure: subscription", Feature: feature},
			{Name: "azure-tenant-id", Usage: "Azure: tenant", Feature: feature},
			{Name: "azure-resource-group-name", Usage: "Azure: resource group", Feature: feature},
			{Name: "azure-route-table-name", Usage: "Azure: route table", Feature: feature},
			{Name: "azure-admin-user", Usage: "Azure: user of the machines", Default: "kops", Feature: feature},
		},
		Describe: func(b *newcluster.Builder) {
			b.Spec.CloudProvider.Azure = &api.AzureSpec{
				SubscriptionID: b.Own["azure-subscription-id"], TenantID: b.Own["azure-tenant-id"], ResourceGroupName: b.Own["azure-resource-group-name"],
				RouteTableName: b.Own["azure-route-table-name"], AdminUser: cmp.Or(b.Own["azure-admin-user"], "kops"),
			}
		},
	}, Validate: validate.Rules{
		Cluster: []validate.Rule{{Name: "file-repository", Do: checkFileRepository}, {Name: "config-store", Do: checkConfigStore}},
	}, Traits: traits.Traits{
		Name: api.CloudAzure, Title: "Azure", Feature: feature, Terraform: traits.Terraform{Feature: "AzureTerraform"},
		SSHKeys: traits.SSHKeys{Most: 1, Needed: true},
		Network: traits.Network{
			NeedsSubnets: true, NeedsCIDR: true, NeedsNonMasquerade: true, NeedsSubnetCIDR: true, NeedsSubnetRegion: true,
			CIDR: "10.0.0.0/16", Split: true, SpansRegion: true, NoIPIP: true, RegionOf: regionOf, OneRegion: true,
			RegionSubnet: func(cluster, region string) api.ClusterSubnetSpec {
				return api.ClusterSubnetSpec{Name: cluster, Region: region}
			},
		},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "Standard_B2s"}}, api.RoleAPIServer: {{Name: "Standard_B2s"}}, api.RoleNode: {{Name: "Standard_B2s"}}, api.RoleBastion: {{Name: "Standard_B2s"}},
		}, Published: []string{"Canonical:0001-com-ubuntu-server-focal:", "Canonical:0001-com-ubuntu-server-jammy:", "Canonical:ubuntu-24_04-lts:"}},
		Store: traits.Store{Schemes: []string{"azureblob"}, Files: []string{"azureblob"}, Variables: []string{"AZURE_ENVIRONMENT"}, Fetch: map[string]string{"azureblob": fetch}},
		Model: traits.Model{NodeConfig: nodeConfig, Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "azure", NameTag: "k8s.io_etcd_" + etcd,
				Tags: []string{"kubernetes.io_cluster_" + c.Name + "=owned", "k8s.io_etcd_" + etcd, "k8s.io_role_control-plane=1"}}
		}},
	}}
}

func nodeConfig(c *api.Cluster, _ *api.InstanceGroup, to *nodeconfig.Config) {
	to.AzureAdminUser = c.Spec.CloudProvider.Azure.AdminUser
}

// checkFileRepository checks that the URL of a file store names its container.
func checkFileRepository(c *validate.Check) {
	if c.Spec.Assets == nil || c.Spec.Assets.FileRepository == nil {
		return
	}
	rest, ok := strings.CutPrefix(*c.Spec.Assets.FileRepository, "azureblob://")
	if _, container, _ := strings.Cut(rest, "/"); ok && strings.Trim(container, "/") == "" {
		c.Bad("spec.assets.fileRepository", *c.Spec.Assets.FileRepository, "names no container", "write azureblob://account/container")
	}
}

// checkConfigStore checks that all stores are in one storage account.
func checkConfigStore(c *validate.Check) {
	account := ""
	for _, u := range []struct{ path, value string }{
		{"spec.configBase", c.Spec.ConfigStore.Base}, {"spec.keyStore", c.Spec.ConfigStore.Keypairs}, {"spec.secretStore", c.Spec.ConfigStore.Secrets},
	} {
		rest, ok := strings.CutPrefix(u.value, "azureblob://")
		if !ok {
			continue
		}
		host, _, _ := strings.Cut(rest, "/")
		if account != "" && host != account {
			c.Bad(u.path, u.value, "is not in the account "+account+" of the other stores", "use one account")
		}
		account = host
	}
}

// regionOf returns the region of a zone: eastus for eastus-1.
func regionOf(zone string) string {
	if i := strings.LastIndex(zone, "-"); i > 0 {
		return zone[:i]
	}
	return ""
}

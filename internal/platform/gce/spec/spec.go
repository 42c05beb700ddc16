// Package spec says what Google Compute Engine is to the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform returns what GCE is.
func Platform() platform.Platform {
	return platform.Platform{Complete: completion(), New: newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "project", Usage: "GCE: project"},
			{Name: "gce-service-account", Usage: "GCE: service account of the machines"},
		},
		Describe: func(b *newcluster.Builder) {
			b.Spec.CloudProvider.GCE = &api.GCESpec{Project: b.Own["project"], ServiceAccount: b.Own["gce-service-account"]}
			b.Spec.CloudConfig = &api.CloudConfiguration{}
		},
	}, Validate: validate.Rules{Group: []validate.GroupRule{{Name: "gce-zones", Do: groupZones}}}, Traits: traits.Traits{
		Name: api.CloudGCE, Title: "GCE", SSHKeys: traits.SSHKeys{NamedOnly: true},
		Has: traits.Abilities{APIServerNodes: true, Prices: true, PodRanges: true},
		Network: traits.Network{
			NeedsSubnets: true, NeedsSubnetRegion: true, NoCIDR: true, SpansRegion: true, NoUtility: true,
			DNS: []api.DNSType{api.DNSPublic, api.DNSPrivate},
			Own: []string{"gce"}, RegionOf: regionOf, OneRegion: true,
			RegionSubnet: func(_, region string) api.ClusterSubnetSpec {
				return api.ClusterSubnetSpec{Name: region, Region: region}
			},
		},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: {{Name: "e2-medium"}}, api.RoleAPIServer: {{Name: "e2-medium"}}, api.RoleNode: {{Name: "e2-medium"}}, api.RoleBastion: {{Name: "e2-micro"}},
		}, Published: []string{"cos-cloud/cos-stable-", "ubuntu-os-cloud/ubuntu-2004-", "ubuntu-os-cloud/ubuntu-2204-", "ubuntu-os-cloud/ubuntu-2404-"}},
		Store: traits.Store{Schemes: []string{"gs"}, Files: []string{"gs"}},
		Model: modelTraits(),
	}}
}

func modelTraits() traits.Model {
	return traits.Model{
		Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "gce", NameTag: "k8s-io-etcd-" + etcd,
				Tags: []string{"k8s-io-cluster-name=" + names.Dashed(c.Name), "k8s-io-etcd-" + etcd, "k8s-io-role-master=master"}}
		},
		NodeConfig: func(c *api.Cluster, _ *api.InstanceGroup, to *nodeconfig.Config) {
			p := c.Spec.CloudProvider.GCE
			to.Multizone, to.NodeTags, to.NodeInstancePrefix = p.Multizone, p.NodeTags, p.NodeInstancePrefix
		},
		CredentialProvider: "https://artifacts.k8s.io/binaries/cloud-provider-gcp/v35.0.0/auth-provider-gcp/linux/%s/auth-provider-gcp",
		Controller: func(c *api.Cluster, _ []*api.InstanceGroup, _ *facts.Cloud, region string) (any, error) {
			return map[string]any{"ProjectID": c.Spec.CloudProvider.GCE.Project, "ClusterName": c.Name, "Region": region}, nil
		},
		HealthClients: func(*api.Cluster) (string, bool) { return "", true }, // the balancer asks from many addresses
	}
}

// regionOf is the region of a zone: europe-west1 of europe-west1-b.
func regionOf(zone string) string {
	if i := strings.LastIndex(zone, "-"); i > 0 {
		return zone[:i]
	}
	return ""
}

func groupZones(c *validate.Check, g *api.InstanceGroup) {
	c.Need(len(g.Spec.Zones) > 0, "spec.zones", "name the zones in which the machines stand")
}

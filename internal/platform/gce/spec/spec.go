// Package spec defines what Google Compute Engine is to the stages that infer, check and describe a
// cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	_ "embed"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
)

// fetch reads a bucket with the token of the machine's service account.
//
//go:embed fetch.sh
var fetch string

// Platform returns the description of GCE.
func Platform() platform.Platform {
	return platform.Platform{Traits: gceTraits(), Complete: completion(), Validate: validation(), New: newClusterRules(), CheckFacts: facts.CheckOwn[Facts], Stub: func(c *api.Cluster, region string) {
		c.Spec.CloudProvider.GCE = &api.GCESpec{}
		c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: region, Region: region}}
	}}
}

func gceTraits() traits.Traits {
	usual := []traits.Type{{Name: "e2-medium"}, {Name: "t2a-standard-2", ARM: true}}
	return traits.Traits{
		Name: api.CloudGCE, Title: "GCE", Rehearsed: true, SSHKeys: traits.SSHKeys{NamedOnly: true},
		Has:    traits.Abilities{APIServerNodes: true, Prices: true, PodRanges: true, Repair: true},
		Unused: unusedFields(), Effects: effectsOfFields(),
		Network: traits.Network{
			NeedsSubnets: true, NeedsSubnetRegion: true, NoCIDR: true, SpansRegion: true, NoUtility: true,
			DNS: []api.DNSType{api.DNSPublic, api.DNSPrivate},
			Own: []string{"gce"}, RegionOf: RegionOf, OneRegion: true, Egress: []string{"nat"},
			RegionSubnet: func(_, region string) api.ClusterSubnetSpec {
				return api.ClusterSubnetSpec{Name: region, Region: region}
			},
			Metadata: "169.254.169.254",
		},
		Machines: traits.Machines{
			Types: map[api.InstanceGroupRole][]traits.Type{
				api.RoleControlPlane: usual, api.RoleAPIServer: usual, api.RoleNode: usual,
				api.RoleBastion: {{Name: "e2-micro"}, {Name: "t2a-standard-1", ARM: true}},
			},
			ImageForms: imageForms,
			// Images that kOps' channels have recommended.
			Published: []string{"cos-cloud/cos-stable-", "ubuntu-os-cloud/ubuntu-2004-", "ubuntu-os-cloud/ubuntu-2204-", "ubuntu-os-cloud/ubuntu-2404-"},
		},
		Store:  traits.Store{Schemes: []string{"gs"}, Files: []string{"gs"}, Fetch: map[string]string{"gs": fetch}},
		Model:  modelTraits(),
		Addons: traits.Addons{DNSController: "google-clouddns", ExternalDNS: "google", SnapshotDriver: "pd.csi.storage.gke.io"},
	}
}

// MachineTypes returns the machine types from which a new group of a role gets one.
func MachineTypes(role api.InstanceGroupRole) []string {
	return traits.TypeNames(gceTraits().Machines.Types[role])
}

// RegionOf returns the region of a zone: europe-west1 for europe-west1-b.
func RegionOf(zone string) string {
	if i := strings.LastIndex(zone, "-"); i > 0 {
		return zone[:i]
	}
	return ""
}

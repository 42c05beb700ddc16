package spec

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
)

// modelTraits returns what GCE changes in the files of its machines.
func modelTraits() traits.Model {
	return traits.Model{
		Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
			return traits.Volumes{Provider: "gce", NameTag: gcecloud.EtcdPrefix + etcd,
				Tags: []string{gcecloud.ClusterLabel + "=" + gcecloud.Label(c.Name), gcecloud.EtcdPrefix + etcd, gcecloud.RolePrefix + "master=master"}}
		},
		Peers: traits.NamedPeers,
		NodeConfig: func(c *api.Cluster, _ *api.InstanceGroup, to *nodeconfig.Config) {
			p := c.Spec.CloudProvider.GCE
			to.Multizone, to.NodeTags, to.NodeInstancePrefix = p.Multizone, p.NodeTags, p.NodeInstancePrefix
		},
		CredentialProvider: "https://artifacts.k8s.io/binaries/cloud-provider-gcp/v35.0.0/auth-provider-gcp/linux/%s/auth-provider-gcp",
		NodeImages:         []string{"registry.k8s.io/cloud-provider-gcp/", "registry.k8s.io/sig-storage/csi-node-driver-registrar:", "registry.k8s.io/sig-storage/livenessprobe:"},
		RemovesNodes:       true,
		ScalingGroups:      scalingGroups,
		Controller: func(c *api.Cluster, _ []*api.InstanceGroup, _ *facts.Cloud, region string) (any, error) {
			return map[string]any{"projectID": c.Spec.CloudProvider.GCE.Project, "clusterName": c.Name, "region": region, "MaxTimeSkew": 300}, nil
		},
		Values: func(c *api.Cluster, _ *facts.Cloud, _ string) (map[string]string, error) {
			return map[string]string{"project": c.Spec.CloudProvider.GCE.Project, "clusterLabel": names.Dashed(c.Name)}, nil
		},
		AddonFlags: func(c *api.Cluster, addon string) []string {
			if addon == "external-dns" {
				return []string{"--google-project=" + c.Spec.CloudProvider.GCE.Project}
			}
			return nil
		},
		// Google's health checks of target pools come from many addresses; other load balancers
		// check the API servers directly.
		HealthClients: func(c *api.Cluster) (string, bool) {
			lb := c.Spec.API.LoadBalancer
			return "", lb != nil && lb.Type == api.LoadBalancerPublic
		},
	}
}

// zonesOf returns the distinct zones of a group's machines, sorted. There is one managed instance
// group per zone.
func zonesOf(g *api.InstanceGroup) []string {
	zones := slices.Clone(g.Spec.Zones)
	slices.Sort(zones)
	return slices.Compact(zones)
}

// ShareOf returns how many of a number of machines are in the i-th of n zones: the first zones get
// the remainder.
func ShareOf(machines int32, i, n int) int32 {
	share := machines / int32(n)
	if int32(i) < machines%int32(n) {
		share++
	}
	return share
}

// scalingGroups returns the managed instance groups of an instance group, as the autoscaler names
// them, without those that never have a machine.
func scalingGroups(c *api.Cluster, g *api.InstanceGroup) []traits.ScalingGroup {
	var out []traits.ScalingGroup
	zones, whole := zonesOf(g), traits.WholeGroup("", g)[0]
	for i, zone := range zones {
		s := traits.ScalingGroup{Min: ShareOf(whole.Min, i, len(zones)), Max: ShareOf(whole.Max, i, len(zones)),
			Name: "https://www.googleapis.com/compute/v1/projects/" + c.Spec.CloudProvider.GCE.Project + "/zones/" + zone + "/instanceGroups/" + gcename.Group(g.Name, zone, c.Name)}
		if s.Max > 0 {
			out = append(out, s)
		}
	}
	return out
}

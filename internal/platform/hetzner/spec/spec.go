// Package spec defines what Hetzner Cloud is to the stages that infer, check and describe a
// cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// Platform returns the description of Hetzner Cloud.
func Platform() platform.Platform {
	return platform.Platform{Complete: completion(), Validate: validation(), CheckFacts: facts.CheckOwn[Facts], New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.Hetzner = &api.HetznerSpec{} },
	}, Stub: func(c *api.Cluster, region string) {
		c.Spec.CloudProvider.Hetzner = &api.HetznerSpec{}
	}, Traits: traits.Traits{
		Name: api.CloudHetzner, Title: "Hetzner", Rehearsed: true, Unused: unusedFields(),
		Network: traits.Network{NeedsSubnets: true, NeedsNonMasquerade: true, OneRegion: true, CIDR: "10.0.0.0/16", NoUtility: true, Metadata: "169.254.169.254",
			Only: &traits.PodNetworks{Names: []string{"cni", "cilium", "calico", "flannel", "kuberouter"}, Why: "where nothing routes addresses of pods between machines",
				Remedy: "choose cilium, calico, flannel or kube-router, or cni and install a network yourself"}},
		Machines: traits.Machines{Types: map[api.InstanceGroupRole][]traits.Type{
			api.RoleControlPlane: usualTypes(), api.RoleAPIServer: usualTypes(), api.RoleNode: usualTypes(), api.RoleBastion: usualTypes(),
		}, Image: "ubuntu-24.04", ImageForms: "the name of a system image, such as ubuntu-24.04, or the number of a snapshot", Published: []string{"ubuntu-"}},
		Store: traits.Store{Schemes: []string{"hos"}, SchemesWith: map[string]string{"s3": hetznercloud.TokenVariable},
			Keys: func(string) string { return storekeys.UserData }},
		Model: modelTraits(),
	}}
}

// usualTypes returns the machine types of new groups. Not all locations have the first one.
func usualTypes() []traits.Type {
	return []traits.Type{{Name: "cx23"}, {Name: "cpx22"}, {Name: "cpx21"}, {Name: "cax11", ARM: true}}
}

// MachineTypes returns the machine types from which a new group gets one.
func MachineTypes() []string { return traits.TypeNames(usualTypes()) }

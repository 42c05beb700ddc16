// Package providers is the list of the platforms that kops knows.
//
// It must not know anything else of them.
package providers

import (
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	azure "kops.local/kops/internal/platform/azure/spec"
	digitalocean "kops.local/kops/internal/platform/digitalocean/spec"
	"kops.local/kops/internal/platform/gce"
	"kops.local/kops/internal/platform/hetzner"
	linode "kops.local/kops/internal/platform/linode/spec"
	"kops.local/kops/internal/platform/local"
	"kops.local/kops/internal/platform/metal"
	openstack "kops.local/kops/internal/platform/openstack/spec"
	scaleway "kops.local/kops/internal/platform/scaleway/spec"
)

// All lists the platforms. Some are supported only in specs.
func All(w platform.World) []platform.Provider {
	return []platform.Provider{
		aws.In(w),
		{Platform: azure.Platform()},
		{Platform: digitalocean.Platform()},
		gce.In(w),
		hetzner.In(w),
		{Platform: linode.Platform()},
		local.In(w),
		metal.In(w),
		{Platform: openstack.Platform()},
		{Platform: scaleway.Platform()},
	}
}

// Of returns the platform with that name, without a connection; nil when there is none.
func Of(name string) *platform.Platform {
	for _, p := range All(platform.World{}) {
		if string(p.Name) == name {
			return &p.Platform
		}
	}
	return nil
}

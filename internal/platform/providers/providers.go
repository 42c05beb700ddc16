// Package providers is the list of the platforms that kops knows.
//
// It must not know anything else of them.
package providers

import (
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	azure "kops.local/kops/internal/platform/azure/spec"
	digitalocean "kops.local/kops/internal/platform/digitalocean/spec"
	gce "kops.local/kops/internal/platform/gce/spec"
	hetzner "kops.local/kops/internal/platform/hetzner/spec"
	linode "kops.local/kops/internal/platform/linode/spec"
	"kops.local/kops/internal/platform/local"
	"kops.local/kops/internal/platform/metal"
	openstack "kops.local/kops/internal/platform/openstack/spec"
	scaleway "kops.local/kops/internal/platform/scaleway/spec"
	"kops.local/kops/internal/platform/ssh"
)

// Options say how each platform is reached.
type Options struct {
	// SSH is how machines of the user are logged in to.
	SSH   ssh.Options
	AWS   aws.Options
	Local local.Options
}

// All lists the platforms. Some are known to specs alone.
func All(o Options) []platform.Provider {
	return []platform.Provider{
		aws.Provider(o.AWS),
		{Platform: azure.Platform()},
		{Platform: digitalocean.Platform()},
		{Platform: gce.Platform()},
		{Platform: hetzner.Platform()},
		{Platform: linode.Platform()},
		local.Provider(o.Local),
		metal.Provider(o.SSH),
		{Platform: openstack.Platform()},
		{Platform: scaleway.Platform()},
	}
}

// Of returns the platform of the name, as far as its spec goes; nil when there is none.
func Of(name string) *platform.Platform {
	for _, p := range All(Options{}) {
		if string(p.Name) == name {
			return &p.Platform
		}
	}
	return nil
}

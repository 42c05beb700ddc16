// Package nodes lists the platforms that the programs on machines support.
//
// It must not know anything else of them.
package nodes

import (
	aws "kops.local/kops/internal/platform/aws/node"
	azure "kops.local/kops/internal/platform/azure/node"
	gce "kops.local/kops/internal/platform/gce/node"
	hetzner "kops.local/kops/internal/platform/hetzner/node"
	local "kops.local/kops/internal/platform/local/node"
	metal "kops.local/kops/internal/platform/metal/node"
	"kops.local/kops/internal/platform/onmachine"
	openstack "kops.local/kops/internal/platform/openstack/node"
)

// All lists the platforms.
func All() []onmachine.Platform {
	return []onmachine.Platform{aws.Platform(), azure.Platform(), gce.Platform(), hetzner.Platform(), local.Platform(), metal.Platform(), openstack.Platform()}
}

// Package controls lists the platforms that kops-controller supports.
//
// It must not know anything else of them.
package controls

import (
	aws "kops.local/kops/internal/platform/aws/control"
	gce "kops.local/kops/internal/platform/gce/control"
	hetzner "kops.local/kops/internal/platform/hetzner/control"
	"kops.local/kops/internal/platform/incluster"
	local "kops.local/kops/internal/platform/local/control"
	metal "kops.local/kops/internal/platform/metal/control"
)

// All lists the platforms.
func All() []incluster.Platform {
	return []incluster.Platform{aws.Platform(), gce.Platform(), hetzner.Platform(), local.Platform(), metal.Platform()}
}

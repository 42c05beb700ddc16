// Package nodes lists the platforms that the programs on machines support.
//
// It must not know anything else of them.
package nodes

import (
	aws "kops.local/kops/internal/platform/aws/node"
	gce "kops.local/kops/internal/platform/gce/node"
	local "kops.local/kops/internal/platform/local/node"
	metal "kops.local/kops/internal/platform/metal/node"
	"kops.local/kops/internal/platform/onmachine"
)

// All lists the platforms.
func All() []onmachine.Platform {
	return []onmachine.Platform{aws.Platform(), gce.Platform(), local.Platform(), metal.Platform()}
}

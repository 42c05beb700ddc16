// Package node is bare metal on its machines: nobody tells a machine of itself, and it
// has a key of its own, which its enrollment registers.
//
// It must not know how a machine is enrolled.
package node

import (
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/onmachine"
)

// Platform is bare metal.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "metal", Prove: func(w onmachine.World) (bootstrap.Prover, error) {
		return bootstrap.OwnKey(w.Root, []string{"/etc/kubernetes/kops/pki/machine/private.pem", "/etc/kops/identity.key"}, w.Hostname, w.Now, w.Rand)
	}}
}

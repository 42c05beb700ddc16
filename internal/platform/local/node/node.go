// Package node is the local cloud on its machines: the machine was created with a key of its own,
// a shared folder lists the machines, and another contains the disks.
//
// It must not know how machines are created.
package node

import (
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/onmachine"
)

// Platform is the local cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "local", Traits: onmachine.Traits{VerifiedKubelets: true, RoutedPods: true, Prompt: true}, Prove: func(w onmachine.World) (bootstrap.Prover, error) {
		return bootstrap.OwnKey(w.Root, []string{localcloud.KeyFile}, w.Hostname, w.Now, w.Rand)
	}, Volumes: volumes}
}

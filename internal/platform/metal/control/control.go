// Package control is bare metal in its clusters: a machine is who has the key that its
// enrollment registered in the cluster's store.
//
// It must not know how a machine is enrolled.
package control

import (
	"context"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/incluster"
)

// Platform is bare metal.
func Platform() incluster.Platform { return incluster.Platform{Name: "metal", Connect: connect} }

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	return incluster.Control{Verifier: bootstrap.NewMachineKeyVerifier(w.Stored, w.Now), Groups: w.Stored}, nil
}

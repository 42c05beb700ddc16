// Package node is Google's cloud on its machines: the metadata server of an instance tells
// who it is, and gives it tokens of its service account; its virtual TPM proves who it is.
//
// It must not know what a machine makes of the answers. It links no SDK.
package node

import (
	"context"
	"fmt"

	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/onmachine"
)

// Platform is Google's cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "gce", Traits: traits(), Environment: []string{gcerest.EndpointVariable, gcerest.MetadataVariable},
		Detect: detect, Prove: prove, Volumes: volumes,
	}
}

// prove proves which instance this is.
func prove(w onmachine.World) (bootstrap.Prover, error) {
	m := gcerest.NewMetadata(w.Env, w.Direct)
	return &vtpm.Prover{Now: w.Now, Open: func() (transport.TPMCloser, error) { return vtpm.Open(w.Root) }, Machine: func(ctx context.Context) (gcerest.Machine, error) {
		out, err := m.Machine(ctx)
		if err != nil {
			return out, fmt.Errorf("ask the cloud who this machine is: %w", err)
		}
		return out, nil
	}}, nil
}

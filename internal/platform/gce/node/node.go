// Package node is Google Cloud on its machines: an instance's metadata server identifies it and
// issues tokens of its service account; its virtual TPM proves its identity.
//
// It must not know what a machine does with the answers. It links no SDK.
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

// Platform returns Google Cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "gce", Traits: traits(), Environment: []string{gcerest.EndpointVariable, gcerest.MetadataVariable},
		Detect: detect, Prove: newProver, Volumes: newVolumes,
	}
}

// newProver returns a prover of this instance's identity.
func newProver(w onmachine.World) (bootstrap.Prover, error) {
	m := gcerest.NewMetadata(w.Env, w.Direct)
	return &vtpm.Prover{Now: w.Now, Open: func() (transport.TPMCloser, error) { return vtpm.Open(w.Root) }, Machine: func(ctx context.Context) (gcerest.Machine, error) {
		out, err := m.Machine(ctx)
		if err != nil {
			return out, fmt.Errorf("identify this machine: %w", err)
		}
		return out, nil
	}}, nil
}

// Package node is Google Cloud on its machines: an instance's metadata server identifies it and
// issues tokens of its service account; its virtual TPM proves its identity.
//
// It must not know what a machine does with the answers. It links no SDK.
package node

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/token"
)

// Platform returns Google Cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "gce", Traits: traits(), Environment: []string{gcerest.EndpointVariable, gcerest.MetadataVariable},
		Detect: detect, Prove: newProver, Volumes: newVolumes, Backends: backends,
	}
}

// backends opens buckets with the machine's own account.
func backends(w onmachine.World, client *http.Client) store.Backends {
	return store.Backends{gs.Backend(gs.FromEnvironment(w.Env, client, token.MachineSource(w.Direct, w.Env(gcerest.MetadataVariable))))}
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

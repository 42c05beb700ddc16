// Package node is Azure on its machines: a machine reads the cluster's store with its managed identity.
//
// It must not know what is in a store. It links no SDK.
package node

import (
	"net/http"

	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/store/azureblob/imds"
)

// Platform returns Azure.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "azure", Environment: []string{"AZURE_ENVIRONMENT"}, Backends: backends}
}

func backends(w onmachine.World, client *http.Client) store.Backends {
	return store.Backends{azureblob.Backend(azureblob.FromEnvironment(w.Env, client, imds.Source(w.Direct, imds.Server)))}
}

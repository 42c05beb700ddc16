package onmachine_test

import (
	"net/http"
	"testing"

	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
	"kops.local/kops/internal/test/opentest"
)

// The pods of a control plane open the same stores as its machine.
func TestTheStoresOfAControlPlane(t *testing.T) {
	opentest.Run(t, func(env func(string) string) store.Backends {
		return onmachine.LocalStores(nodes.All(), open.Options{Env: env, HTTP: &http.Client{}, Account: sdkchain.Credentials{}})
	})
}

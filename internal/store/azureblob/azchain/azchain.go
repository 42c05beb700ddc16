// Package azchain finds credentials as Azure's own programs do: in the environment, in a
// workload's or machine's identity, and last in the login of az.
//
// It must not know what they are for. It links Azure's azidentity, 1.6 MB, which programs
// that every machine downloads do without.
package azchain

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/azureblob"
)

// scope covers everything that the account may do with storage.
const scope = "https://storage.azure.com/.default"

// authority returns the identity provider of a cloud, by its name in AZURE_ENVIRONMENT.
func authority(name string) cloud.Configuration {
	switch azureblob.Suffix(name) {
	case "core.usgovcloudapi.net":
		return cloud.AzureGovernment
	case "core.chinacloudapi.cn":
		return cloud.AzureChina
	}
	return cloud.AzurePublic
}

// Source returns a token source that sets up the credential chain on first use; the
// chain caches tokens. Errors have class fault.Denied.
func Source(client *http.Client, environment string) func(context.Context) (string, error) {
	chain := sync.OnceValues(func() (azcore.TokenCredential, error) {
		return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: policy.ClientOptions{Cloud: authority(environment), Transport: client}})
	})
	return func(ctx context.Context) (string, error) {
		var token azcore.AccessToken
		found, err := chain()
		if err == nil {
			token, err = found.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		}
		if err != nil && ctx.Err() == nil {
			// The cause's class is hidden, because an answer of the token service says nothing
			// about the container.
			err = fault.Wrap(fault.Denied, fmt.Errorf("find Azure credentials: %v", err), //nolint:errorlint // see above
				"log in (az login), or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or AZURE_STORAGE_KEY")
		}
		return token.Token, err
	}
}

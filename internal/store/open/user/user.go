// Package user defines how programs of users open stores: all stores that machines open, with
// credentials that are found as in the clouds' own programs.
//
// It must not read the environment itself.
package user

import (
	"net/http"

	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/store/azureblob/azchain"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/adc"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/oschain"
)

// Backends lists the backends that can be opened. env returns an environment
// variable, or "", as os.Getenv does; client sends all requests.
func Backends(env func(string) string, client *http.Client) store.Backends {
	openstack := oschain.Client(env, client)
	return append(open.Backends(open.Options{Env: env, HTTP: client, Account: sdkchain.Credentials{}, Proofs: true}),
		gs.Backend(gs.FromEnvironment(env, client, adc.Source(client))),
		azureblob.Backend(azureblob.FromEnvironment(env, client, azchain.Source(client, env("AZURE_ENVIRONMENT")))),
		swift.Backend(swift.Config{HTTP: openstack, Login: oschain.Login(env, openstack)}))
}

// Package node is Google's cloud on its machines: so far what differs on them. It cannot
// prove who a machine is yet.
//
// It must not know what a machine makes of it.
package node

import (
	"kops.local/kops/internal/platform/onmachine"
)

// Platform is Google's cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "gce", Traits: onmachine.Traits{
		TimeServers: "time.google.com",
		Registry: onmachine.CredentialProvider{Name: "auth-provider-gcp", Cache: "1m0s",
			Images: []string{"gcr.io", "*.gcr.io", "container.cloud.google.com", "*.pkg.dev"}},
	}}
}

// Package platformtest finds the platform that a test's cluster stands on.
//
// It is for tests only, and must not know what is done with it.
package platformtest

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
)

// Of returns the platform of a cluster; an empty one when there is none.
func Of(c *api.Cluster) *platform.Platform { return Named(string(c.CloudProviderID())) }

// Named returns the platform of the name; an empty one when there is none.
func Named(name string) *platform.Platform {
	if p := providers.Of(name); p != nil {
		return p
	}
	return &platform.Platform{}
}

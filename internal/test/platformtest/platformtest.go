// Package platformtest finds the platform of a test's cluster.
//
// It is for tests only, and must not know how the platform is used.
package platformtest

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
)

// Of returns the platform of a cluster; an empty one if there is none.
func Of(c *api.Cluster) *platform.Platform { return Named(string(c.CloudProviderID())) }

// Named returns the platform with a name; an empty one if there is none.
func Named(name string) *platform.Platform {
	if p := providers.Of(name); p != nil {
		return p
	}
	return &platform.Platform{}
}

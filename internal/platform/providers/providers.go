// Package providers is the list of the platforms that kops knows.
//
// It must not know anything else of them.
package providers

import (
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	"kops.local/kops/internal/platform/local"
)

// Options say how each platform is reached.
type Options struct {
	AWS   aws.Options
	Local local.Options
}

// All lists the platforms.
func All(o Options) []platform.Provider {
	return []platform.Provider{aws.Provider(o.AWS), local.Provider(o.Local)}
}

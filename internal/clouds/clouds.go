// Package clouds is the list of the platforms that kops knows.
//
// It must not know anything else of them.
package clouds

import (
	"kops.local/kops/internal/cloud"
	"kops.local/kops/internal/clouds/aws"
	"kops.local/kops/internal/clouds/local"
)

// Options say how each platform is reached.
type Options struct {
	AWS   aws.Options
	Local local.Options
}

// All lists the platforms.
func All(o Options) []cloud.Provider {
	return []cloud.Provider{aws.Provider(o.AWS), local.Provider(o.Local)}
}

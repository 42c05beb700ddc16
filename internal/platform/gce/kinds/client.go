package kinds

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// Client is what the kinds call.
type Client struct {
	gceapi.Clients
}

// known is a value that an apply or an observation has made known, or "".
func known(v resource.Value) string {
	s, _ := v.Known()
	return s
}

// Package incluster says what a platform is to kops-controller and dns-controller, in the
// clusters that the platform's machines make up.
//
// It must not know any platform; package controls lists them.
package incluster

import (
	"context"
	"time"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/dns"
)

// Platform is one platform.
type Platform struct {
	// Name is the platform's name in the configuration: aws, local …
	Name string
	// Connect opens what is asked of the platform.
	Connect func(context.Context, World) (Control, error)
	// DNS is its service of names; nil: dns-controller cannot use one of the platform's.
	DNS *DNS
}

// DNS is a service in whose zones names are published.
type DNS struct {
	// Name is what dns-controller calls it.
	Name string
	// BatchFlag is the flag that bounds a batch of changes, and Batch its default; empty: there is none.
	BatchFlag string
	Batch     int
	// Open connects to the service. batch is the value of the flag.
	Open func(ctx context.Context, env func(string) string, batch int) (dns.Provider, error)
}

// World is what a platform needs of the process that asks it.
type World struct {
	Config *controllerconfig.Config
	// Stored is what the cluster's store says of groups.
	Stored   controller.Stored
	Env      func(string) string
	Hostname func() (string, error)
	Now      func() time.Time
}

// Control tells who machines are, of which group their nodes are, and which are gone.
type Control struct {
	Verifier bootstrap.Verifier
	Groups   controller.Groups
	// InPlace says that machines are changed, and not replaced: see controller.Server.
	InPlace bool
	// Prefixes are the addresses that the platform leads to machines for their pods; nil where it does not.
	Prefixes controller.Prefixes
	// Machines tells which of them are gone; nil: that is not known. Period is how often to ask.
	Machines controller.Machines
	Period   time.Duration
	// Fleet replaces machines; nil: the platform cannot.
	Fleet controller.Fleet
}

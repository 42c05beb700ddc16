// Package incluster defines what a platform is to kops-controller and dns-controller, in clusters
// on the platform's machines.
//
// It must not know any platform; package controls lists them.
package incluster

import (
	"context"
	"crypto/tls"
	"time"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/dns/records"
)

// Platform is one platform.
type Platform struct {
	// Name is the platform's name in the configuration: aws, local …
	Name string
	// Connect connects to the platform.
	Connect func(context.Context, World) (Control, error)
	// DNS is the platform's DNS service; nil: dns-controller cannot use one of the platform's.
	DNS *DNS
}

// DNS is a service in whose zones names are published.
type DNS struct {
	// Name is what dns-controller calls it.
	Name string
	// BatchFlag is the flag that limits the size of a batch of changes, and Batch its default;
	// empty: there is no such flag.
	BatchFlag string
	Batch     int
	// Open connects to the service. batch is the value of the flag.
	Open func(ctx context.Context, env func(string) string, batch int) (records.Provider, error)
}

// World is what a platform needs from the process that calls it.
type World struct {
	Config *controllerconfig.Config
	// Stored is what the cluster's store holds about groups.
	Stored   controller.Stored
	Env      func(string) string
	Hostname func() (string, error)
	Now      func() time.Time
	// CallerCertificate is what a bootstrap.Callback needs as its Certificate.
	CallerCertificate func() (*tls.Certificate, error)
}

// Control identifies machines, the groups of their nodes, and the machines that are gone.
type Control struct {
	Verifier bootstrap.Verifier
	Groups   controller.Groups
	// InPlace reports that machines are changed, and not replaced: see controller.Server.
	InPlace bool
	// Prefixes are the ranges that the platform routes to machines for their pods; nil where it
	// does not.
	Prefixes controller.Prefixes
	// Machines reports which machines are gone; nil: that is unknown. Period is the polling
	// interval.
	Machines controller.Machines
	Period   time.Duration
	// Fleet replaces machines; nil: the platform cannot.
	Fleet controller.Fleet
}

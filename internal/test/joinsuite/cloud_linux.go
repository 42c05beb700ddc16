package joinsuite

import (
	"net/http"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/test/cloudsuite"
)

// Cloud describes a cloud's stand-in to its machines. Its functions may call Fatal.
type Cloud struct {
	*cloudsuite.Cloud
	// Options of `kops create cluster` that the cluster needs besides those of the suite of clouds.
	Options []string
	// Owns reports whether a host name belongs to the cloud's APIs, which API serves; all others are mirrors.
	Owns func(host string) bool
	API  func(*cloudsuite.World) http.Handler
	// Metadata is the metadata service of a machine, and Elsewhere the variables by which a program finds it
	// at a URL that is not the usual one.
	Metadata  func(*cloudsuite.World, platform.Machine) http.Handler
	Elsewhere func(url string) map[string]string
	// Script is what a machine runs at its first boot, as its image reads it from the metadata service.
	Script func(*cloudsuite.World, platform.Machine) string
	// Identify gives a machine, whose root is a folder, what it lacks to prove its identity: a device, or
	// what the stand-in does not tell of it by itself; nil: it lacks nothing.
	Identify func(w *cloudsuite.World, m platform.Machine, root string)
	// Devices are the paths at which a machine sees the disks that are attached to it now.
	Devices func(*cloudsuite.World, platform.Machine) []string
	// Peer is the name of the member of etcd whose disk a machine has; nil: it is named after the member.
	Peer func(*cloudsuite.World, platform.Machine) string
	// ProviderID is the provider ID that the kubelet or the cloud controller gives to a machine's node.
	ProviderID func(platform.Machine) string
}

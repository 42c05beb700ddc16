package cloudsuite

import (
	"testing"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/proxy"
)

// Cloud describes a cloud. Its functions may call Fatal.
type Cloud struct {
	Platform platform.Platform
	// Open returns an empty account.
	Open func(testing.TB) Account
	// Options are what `kops create cluster` needs in addition to a name and zones, and Zones are three
	// zones of one region, or one if a new cluster is in one. Nameless are the options of a cluster that
	// publishes no names.
	Options  []string
	Zones    []string
	Nameless []string
	// Large are the options of a private cluster of three control planes, with a bastion where that exists,
	// and Group is the end of the spec of one of its further groups: an image, a machine type, and a place.
	Large []string
	Group func(i int) string

	// Budgets are the maximum numbers of requests where they differ from the suite's, by row.
	Budgets map[string]int
	// Places is at how many of its writes one run interrupts a command. Turns is over how many runs the
	// parts of the suite are spread, where they take long; each run has a life.
	Places, Turns int
	// WithoutNames removes what differs between objects of clusters that were created alike.
	WithoutNames func([]string) []string

	// Network is the kind of the network, and First the call that creates the first object, as the
	// proxy names it.
	Network, First string
	// Edit is one change of a field of a group of nodes.
	Edit Edit
	// Type is a machine type that nodes do not have, and NoType one that the zone lacks.
	Type, NoType string
	// More are the options of `kops create instancegroup` for a group in several zones where groups
	// can be, and OneZoneMore is the field that adds a zone to it.
	More        []string
	OneZoneMore string
	// Changed checks what a change has done in the cloud, by the change's title.
	Changed map[string]func(*World)
	// Topologies are the options of clusters, by title.
	Topologies map[string][]string
	// Balancers are load balancers that a cluster gets and loses.
	Balancers []Balancer
	// Shared are networks that others own.
	Shared []Shared

	// Deny takes permissions from the user, and restores those that it took before. Reads are denied
	// to an update one by one; each of Creations and Deletions is a list of permissions without which
	// an update and a deletion fail, separated by spaces. Each list needs what those before it permit.
	Deny                        func(w *World, rights ...string)
	Reads, Creations, Deletions []string
	// Named are the options of the cluster for which permissions are denied.
	Named []string
	// FillUp uses up some quotas, or frees them again. The error contains all of Quotas.
	FillUp func(w *World, full bool)
	Quotas []string
	// Block creates an object of somebody else: while it exists, the network cannot be deleted,
	// and returns what names it.
	Block func(*World) (name string, remove func())
	// Release takes a machine out of its group as others might, and not as a roll does; nil: nobody can.
	// The machine still belongs to the cluster.
	Release func(*World, platform.Machine)
	// Outdate makes the cloud report machines as outdated that are, where it does not by itself.
	Outdate func(*World)

	// Tests are the cloud's own, each with an empty account.
	Tests map[string]func(*World)
	// Cannot are the parts of the suite that the stand-in or the cloud cannot do, and why.
	Cannot map[string]string

	whole *whole // once it is measured
}

// Account is a user's account at a cloud's stand-in. It is empty, except for a state store and what
// the options of clusters need.
type Account struct {
	// Env are the variables by which kops reaches the account and the state store.
	Env   map[string]string
	Proxy *proxy.Proxy
	// Store is the state store, without the proxy.
	Store store.Store
	// Objects lists everything in the account, without the proxy.
	Objects func() []string
	// Own belongs to the cloud's own functions.
	Own any
}

// Edit is a change of one field, the change that its preview shows, and one that it does not.
type Edit struct{ Field, Shows, Hides string }

// Balancer is a load balancer of the API, in a cluster of a topology; Fields are set in addition to its type.
type Balancer struct {
	Topology, Type string
	Fields         []string
}

// Shared is a network that others own.
type Shared struct {
	Title string
	// Make creates the network, and returns the options of a cluster in it, and what the preview of
	// the cluster's deletion says is kept.
	Make func(*World) (options, kept []string)
	// Check checks a running cluster; nil: nothing more.
	Check func(*World)
}

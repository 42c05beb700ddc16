// Package rehearsal is the contract between a platform and this host for emulating the platform
// here: its API by an emulator, and its machines by machines of this host, which run exactly the
// user data that the platform would give them. A play says what its emulator wants of the host, and a
// Reconciler makes the host match.
//
// It must not know any platform, nor how machines are made.
package rehearsal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os/exec"
)

// Machine is an emulated machine.
type Machine struct {
	// Name is its name in the rehearsal, and its host name.
	Name string
	// Address is its address, with the prefix length of its network; Gateway is one of the
	// addresses that the play gave this host.
	Address netip.Prefix
	Gateway netip.Addr
	// UserData is the user data that the platform would give it.
	UserData string
	// MemoryMiB limits its memory; 0 means what the host can spare.
	MemoryMiB int
	// Shows maps paths on the machine to files, folders and sockets of this host.
	Shows map[string]string
}

// Machines are the machines of the rehearsal.
type Machines interface {
	// Launch creates a machine, and returns as soon as it is booting.
	Launch(context.Context, Machine) error
	// List returns the existing machines, and whether each is running.
	List() (map[string]bool, error)
	// Destroy stops a machine immediately, and removes it. It is not an error if it does not exist.
	Destroy(ctx context.Context, name string) error
	// Console returns a machine's console output.
	Console(name string) ([]byte, error)
}

// Disk is a block device that outlives the machines it is attached to.
type Disk struct {
	Name string
	GiB  int
	// Machine is the machine that sees it, at each of the paths.
	Machine string
	Paths   []string
}

// Disks are the disks of the rehearsal, apart from the machines' own.
type Disks interface {
	// Plug attaches a disk to its machine, which must be running. The first call creates the disk,
	// empty. It is idempotent.
	Plug(context.Context, Disk) error
	// Unplug detaches a disk from its machine. It is not an error if it is not attached.
	Unplug(ctx context.Context, name string) error
	// Discard removes a disk and its content. It is not an error if it does not exist.
	Discard(ctx context.Context, name string) error
}

// Balancer is a load balancer with its own address.
type Balancer struct {
	Name    string
	Address netip.Addr
	Fronts  []Front
}

// Front is a port of a load balancer.
type Front struct {
	Port, Target int
	// Hosts are the addresses of its backends.
	Hosts []string
}

// Network connects the machines and this host. Each call gives the complete desired state.
type Network interface {
	// Addresses sets this host's addresses, which include the machines' gateways.
	Addresses([]netip.Prefix) error
	// Routes sets the ranges behind machines: it maps each range to the machine's address.
	Routes(map[string]string) error
	// Check sets the machines, by address, whose ports drop IPv4 packets from or to other addresses
	// than those given.
	Check(map[netip.Addr][]netip.Prefix) error
	// Balance sets the load balancers.
	Balance([]Balancer) error
}

// Stage is what a play may use of this host.
type Stage struct {
	Machines Machines
	Disks    Disks
	Network  Network
	// Address is where everything that the play serves under a name is served.
	Address netip.Addr
	Log     *slog.Logger
}

// Platform is a platform that can be emulated on this host.
type Platform struct {
	Name string
	// Check reports what this host is missing to emulate the platform, before anything is created.
	Check func() error
	// Start starts the emulator, and returns the play.
	Start func(context.Context, Stage, Options) (*Play, error)
}

// Play is an emulated platform.
type Play struct {
	// Serves reports whether a name is a host of the platform's services, and Handler serves HTTPS
	// requests to them.
	Serves  func(host string) bool
	Handler http.Handler
	// Plain are plain HTTP servers with their own addresses, such as a metadata service.
	Plain map[netip.Addr]http.Handler
	// Lookup returns the records of a name and a type, such as A, as lines of a zone file; known is
	// false if the name does not exist. Both are as in DNS, without a trailing dot.
	Lookup func(name, kind string) (records []string, known bool)
	// Scheme is the URL scheme of its buckets.
	Scheme string
	// Environment is what a user's programs need to reach the platform, NAME=VALUE; a NAME alone is
	// removed from their environment.
	Environment []string
	// Run runs the emulation until the context is done. The stage removes what it created.
	Run func(context.Context) error
	// Close stops the emulator.
	Close func() error
}

// OpenStage is an open stage. The code that opened it closes it.
type OpenStage interface {
	// Contract returns what a play may use of this host.
	Contract() Stage
	// Dir returns a folder for files of the play, which is removed with the stage.
	Dir() string
	// Play sets the platform to emulate, once: from then on its names resolve.
	Play(*Play) error
	// Command returns a command that runs in the rehearsal: it resolves the rehearsal's names and
	// trusts its certificate authority. env is its environment, NAME=VALUE, to which the variables
	// that this needs are added.
	Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd
	// Close stops everything that runs, and restores the host. It is idempotent.
	Close(context.Context) error
}

// Opener opens a stage on this host.
type Opener func(context.Context, StageOptions) (OpenStage, error)

// StageOptions say where a stage is opened.
type StageOptions struct {
	// Root is its folder; empty: the platform's default.
	Root string
	Log  *slog.Logger
}

// Options configure a play.
type Options struct {
	// Stores are buckets that exist from the start.
	Stores []string
	// Dir is a folder for files of the play.
	Dir string
	// Log receives what the emulator prints; may be nil.
	Log io.Writer
}

// Package rehearsal is what a platform and this host agree on, so that the platform can be
// played here: its API by an emulator, and its machines by machines of this host, which
// run the very user data that the platform would give them.
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

// Machine is a machine of a play.
type Machine struct {
	// Name is its own in the rehearsal, and its host name.
	Name string
	// Address is its address, with the length of its network's prefix; Gateway is one of
	// the addresses that the play gave this host.
	Address netip.Prefix
	Gateway netip.Addr
	// UserData is what it starts with, as the platform would give it.
	UserData string
	// MemoryMiB bounds its memory; 0 is what the host can do without.
	MemoryMiB int
	// Shows are files, folders and sockets of this host by the paths at which the machine has them.
	Shows map[string]string
}

// Machines are the machines of the rehearsal.
type Machines interface {
	// Launch makes a machine, and returns as soon as it is on its way up.
	Launch(context.Context, Machine) error
	// List returns the machines that there are, and whether each runs.
	List() (map[string]bool, error)
	// Destroy ends a machine at once, and removes it. It is not an error if it does not exist.
	Destroy(ctx context.Context, name string) error
	// Console returns what a machine wrote on its console.
	Console(name string) ([]byte, error)
}

// Disk is a block device that outlives the machines that have it.
type Disk struct {
	Name string
	GiB  int
	// Machine sees it, at each of the paths.
	Machine string
	Paths   []string
}

// Disks are the disks of the rehearsal, besides the machines' own.
type Disks interface {
	// Plug shows a disk to its machine, which must run. The first time the disk is made,
	// and empty. It can be called again.
	Plug(context.Context, Disk) error
	// Unplug takes a disk from the machine that has it. It is not an error if none has it.
	Unplug(ctx context.Context, name string) error
	// Discard removes a disk and its content. It is not an error if it does not exist.
	Discard(ctx context.Context, name string) error
}

// Balancer is a load balancer at an address of its own.
type Balancer struct {
	Name    string
	Address netip.Addr
	Fronts  []Front
}

// Front is a port of a load balancer.
type Front struct {
	Port, Target int
	// Hosts are the addresses of those that serve it.
	Hosts []string
}

// Network joins the machines and this host. Each call gives the complete desired state.
type Network interface {
	// Addresses are this host's own, among them the gateways of machines.
	Addresses([]netip.Prefix) error
	// Routes are ranges behind machines, with the machine's address.
	Routes(map[string]string) error
	// Balance sets the load balancers.
	Balance([]Balancer) error
}

// Stage is what a play has of this host.
type Stage struct {
	Machines Machines
	Disks    Disks
	Network  Network
	// Address is where everything that the play answers under a name is served.
	Address netip.Addr
	Log     *slog.Logger
}

// Play is a platform that is played.
type Play struct {
	// Serves reports whether a name is a host of the platform's services, and Handler
	// answers what is asked of them, by https.
	Serves  func(host string) bool
	Handler http.Handler
	// Plain are servers of plain HTTP at addresses of their own, such as a metadata service.
	Plain map[netip.Addr]http.Handler
	// Lookup returns the records of a name and a type, such as A, as lines of a zone file;
	// known is false where there is no such name. Both are as in DNS, without a final dot.
	Lookup func(name, kind string) (records []string, known bool)
	// Scheme is the scheme of the URLs of its buckets.
	Scheme string
	// Environment is what programs of a user need to reach the platform, NAME=VALUE; a NAME
	// alone is taken out of their environment.
	Environment []string
	// Keep plays until the context ends. What it made is removed by the stage.
	Keep func(context.Context) error
	// Close ends the emulator.
	Close func() error
}

// House is an open stage. The code that opened it closes it.
type House interface {
	// Contract is what a play has of this host.
	Contract() Stage
	// Dir is a folder for files of the play, which go with the stage.
	Dir() string
	// Play sets the platform to play, once: from then on its names are known.
	Play(*Play) error
	// Command is a program of the user for which the rehearsal is the world: its names, and
	// its authority among those that are trusted. env is its environment, NAME=VALUE, to
	// which what leads there is added.
	Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd
	// Close ends everything that runs, and leaves the host as it was. It can be called again.
	Close(context.Context) error
}

// HouseOptions say where a stage is opened.
type HouseOptions struct {
	// Root is its folder; empty: the platform's own choice.
	Root string
	Log  *slog.Logger
}

// Options describe a play.
type Options struct {
	// Stores are buckets that are there from the start.
	Stores []string
	// Dir is a folder for files of the play.
	Dir string
	// Log receives what the emulator prints; may be nil.
	Log io.Writer
}

package emulator

import (
	"context"
	"net/netip"
	"time"
)

// Options say what exists from the start, and how the emulator behaves.
type Options struct {
	// Token is the API token; empty: every token is valid. ReadOnly is another one, which may only
	// read.
	Token, ReadOnly string
	// Images are the names of the system images, each for both architectures; nil: the usual ones.
	Images []string

	// Machines run the servers; nil: servers run, but do nothing.
	Machines Machines
	// Healthy reports whether a running server passes health checks at a port; nil: it always does. It
	// must not call the emulator.
	Healthy func(s Server, port int) bool

	// Now and Sleep are the clock; nil: the real clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Latency is how long actions take; 0: they are done by the next request. Boot is how long servers
	// take to be created and to start.
	Latency, Boot time.Duration
	// Rate is how many requests are allowed at once, and come back within an hour; 0: 3600.
	Rate int
	// Most are limits by kind, such as servers; other kinds have none.
	Most map[string]int
	// Seed determines random values.
	Seed uint64
	// OnBug is called with bugs of the emulator: a method that it does not implement, or a response that
	// the description forbids. May be nil; it must not call the emulator.
	OnBug func(error)
}

// Server describes a server's machine.
type Server struct {
	ID             int64
	Name           string
	Type, Location string
	CPUs           int
	MemoryMiB      int
	Labels         map[string]string
	SSHKeys        []string // public keys
	UserData       string
	// Public is its public IPv4 address; invalid if it has none.
	Public   netip.Addr
	Networks []Interface
	Volumes  []Volume
}

// Interface is a server's interface in a network.
type Interface struct {
	Network int64
	Address netip.Addr
	// Range is the network's range, Subnet the range of the address, and Gateway the network's gateway.
	Range, Subnet netip.Prefix
	Gateway       netip.Addr
}

// Volume is a volume that is attached to a server.
type Volume struct {
	ID   int64
	Name string
	GiB  int
	// Device is its path on the server.
	Device string
}

// Machines run servers. The methods must not call the emulator.
type Machines interface {
	// Start starts a machine, new or stopped, and returns as soon as it is booting. An error becomes the
	// action's error.
	Start(context.Context, Server) error
	// Stop stops a machine, which keeps its disk. It is not an error if it is not running.
	Stop(context.Context, Server) error
	// Delete stops and removes a machine. It is not an error if it does not exist.
	Delete(context.Context, Server) error
	// Plug makes the server's volumes and networks, and no others, available to a running machine.
	Plug(context.Context, Server) error
}

// idleMachines implements Machines without running anything.
type idleMachines struct{}

func (idleMachines) Start(context.Context, Server) error  { return nil }
func (idleMachines) Stop(context.Context, Server) error   { return nil }
func (idleMachines) Delete(context.Context, Server) error { return nil }
func (idleMachines) Plug(context.Context, Server) error   { return nil }

package rehearsal

import (
	"context"
	"net/netip"
)

// Wanted is what an emulated platform needs of this host: the complete state of its emulator, in
// the terms of a host.
type Wanted struct {
	Machines []WantedMachine
	// Disks are all disks that exist, except those that belong to a machine; Machine is empty if
	// a disk is not attached. A disk that is not among them anymore is discarded.
	Disks     []Disk
	Balancers []WantedBalancer
	// Routes maps ranges to the names of the machines behind which they are.
	Routes map[string]string
	// Zones are the zones of the platform's DNS service, and Hosts the addresses of its own hosts
	// other than machines and load balancers.
	Zones []Zone
	Hosts map[string]netip.Addr
}

// WantedMachine is a machine that the emulator runs.
type WantedMachine struct {
	// Name is its name in the rehearsal. ID tells it from earlier machines with the name, which it
	// replaces; it can be empty if no two machines have the same name.
	Name, ID string
	Address  netip.Addr
	// Network is the range of its network, whose first address is the gateway's.
	Network netip.Prefix
	// Public is its public address; invalid: it has none.
	Public netip.Addr
	// Own are the addresses under which it may send and receive IPv4 packets; empty: any.
	Own []netip.Prefix
	// Hosts are the names that resolve to its address.
	Hosts []string
	// Boot returns what it boots from. It is called when the machine is launched.
	Boot func(context.Context) (Boot, error)
	// Died tells the emulator that the machine has stopped on its own. It is called in each pass
	// until the machine is no longer wanted.
	Died func(context.Context) error
}

// Boot is what a machine boots from.
type Boot struct {
	// UserData, MemoryMiB and Shows are as in Machine.
	UserData  string
	MemoryMiB int
	Shows     map[string]string
	// End removes what was made for the machine, after it has ended; nil: nothing was.
	End func() error
}

// WantedBalancer is a load balancer of the platform.
type WantedBalancer struct {
	Name string
	// Address is its address. If it is invalid, the balancer gets the last address that is free in
	// the first of Subnets that has one, and keeps it.
	Address netip.Addr
	Subnets []netip.Prefix
	// Hosts are the names that resolve to its address.
	Hosts  []string
	Fronts []WantedFront
}

// WantedFront is a port of a load balancer.
type WantedFront struct {
	Port, Target int
	// Machines are the names of its backends. Those that do not run are ignored.
	Machines []string
}

// gateway returns the address of a network's gateway, with the length of the network's range.
func gateway(network netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(network.Masked().Addr().Next(), network.Bits())
}

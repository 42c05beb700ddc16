package stage

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/balance"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/rehearsal"
)

// stageNetwork connects the machines and this host: a bridge with the host's addresses, and
// load balancers on some of them.
type stageNetwork struct {
	bridge  string
	address netip.Addr                      // of the stage's own services
	port    func(machine netip.Addr) string // returns the bridge's port of the machine with an address

	mu             sync.Mutex
	addresses      []netip.Prefix
	plainAddresses []netip.Addr
	balancers      []netip.Addr
	ports          map[netip.AddrPort]*balancerPort
}

// balancerPort is a port of a load balancer.
type balancerPort struct {
	target int
	server *balance.Server
}

// apply sets all addresses of the bridge. The caller holds the lock.
func (w *stageNetwork) apply() error {
	want := slices.Clone(w.addresses)
	for _, a := range slices.Concat([]netip.Addr{w.address}, w.plainAddresses, w.balancers) {
		if !slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Addr() == a }) {
			want = append(want, hostPrefix(a))
		}
	}
	return bridges.SetAddresses(w.bridge, want)
}

func (w *stageNetwork) setPlain(list []netip.Addr) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plainAddresses = list
	return w.apply()
}

func (w *stageNetwork) Addresses(list []netip.Prefix) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range list {
		other, err := bridges.Overlap(p.Masked(), w.bridge)
		if err != nil {
			return err
		}
		if other != "" {
			return fault.Wrap(fault.Permanent, fmt.Errorf("the network %s overlaps the network of this host's interface %s", p.Masked(), other), "choose another range for the network")
		}
	}
	w.addresses = slices.Clone(list)
	return w.apply()
}

func (w *stageNetwork) Routes(to map[string]string) error { return bridges.Route(w.bridge, to) }

func (w *stageNetwork) Check(machines map[netip.Addr][]netip.Prefix) error {
	ports := map[string][]netip.Prefix{}
	for a, own := range machines {
		ports[w.port(a)] = own
	}
	return bridges.CheckAddresses(w.bridge, ports)
}

func (w *stageNetwork) Balance(list []rehearsal.Balancer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := map[netip.AddrPort]rehearsal.Front{}
	w.balancers = nil
	for _, b := range list {
		w.balancers = append(w.balancers, b.Address)
		for _, f := range b.Fronts {
			want[netip.AddrPortFrom(b.Address, uint16(f.Port))] = f //nolint:gosec // a port
		}
	}
	for at, s := range w.ports {
		if f, ok := want[at]; !ok || f.Target != s.target {
			s.server.Close()
			delete(w.ports, at)
		}
	}
	if err := w.apply(); err != nil {
		return err
	}
	var errs []error
	for at, f := range want {
		s := w.ports[at]
		if s == nil {
			l, err := net.Listen("tcp4", at.String())
			if err != nil {
				errs = append(errs, portInUseError(err))
				continue
			}
			s = &balancerPort{f.Target, balance.Serve(l, balance.Front{Port: f.Port, Target: f.Target}, slog.New(slog.DiscardHandler))}
			w.ports[at] = s
		}
		s.server.SetBackends(f.Hosts)
	}
	return errors.Join(errs...)
}

// close closes the load balancers.
func (w *stageNetwork) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, s := range w.ports {
		s.server.Close()
		delete(w.ports, at)
	}
}

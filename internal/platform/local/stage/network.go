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

// wires join the machines and this host: a bridge with the host's addresses, and load
// balancers at some of them.
type wires struct {
	bridge  string
	address netip.Addr // of the stage's own services

	mu        sync.Mutex
	addresses []netip.Prefix
	plain     []netip.Addr
	balancers []netip.Addr
	served    map[netip.AddrPort]*served
}

// served is a port of a load balancer.
type served struct {
	target int
	server *balance.Server
}

// apply gives the bridge all its addresses. The caller holds the lock.
func (w *wires) apply() error {
	want := slices.Clone(w.addresses)
	for _, a := range slices.Concat([]netip.Addr{w.address}, w.plain, w.balancers) {
		if !slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Addr() == a }) {
			want = append(want, whole(a))
		}
	}
	return bridges.SetAddresses(w.bridge, want)
}

func (w *wires) setPlain(list []netip.Addr) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plain = list
	return w.apply()
}

func (w *wires) Addresses(list []netip.Prefix) error {
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

func (w *wires) Routes(to map[string]string) error { return bridges.Route(w.bridge, to) }

func (w *wires) Balance(list []rehearsal.Balancer) error {
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
	for at, s := range w.served {
		if f, ok := want[at]; !ok || f.Target != s.target {
			s.server.Close()
			delete(w.served, at)
		}
	}
	if err := w.apply(); err != nil {
		return err
	}
	var errs []error
	for at, f := range want {
		s := w.served[at]
		if s == nil {
			l, err := net.Listen("tcp4", at.String())
			if err != nil {
				errs = append(errs, taken(err))
				continue
			}
			s = &served{f.Target, balance.Serve(l, balance.Front{Port: f.Port, Target: f.Target}, slog.New(slog.DiscardHandler))}
			w.served[at] = s
		}
		s.server.SetBackends(f.Hosts)
	}
	return errors.Join(errs...)
}

// close ends the load balancers.
func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, s := range w.served {
		s.server.Close()
		delete(w.served, at)
	}
}

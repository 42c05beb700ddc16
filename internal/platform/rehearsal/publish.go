package rehearsal

import (
	"net"
	"net/http"
	"net/netip"

	"kops.local/kops/internal/contract/ranges"
)

// publish makes names and callers known, and returns the load balancers with their addresses.
func (r *Reconciler) publish(w Wanted, machines map[string]WantedMachine) []Balancer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers, r.names = map[netip.Addr]string{}, Names{Zones: w.Zones, Hosts: map[string]netip.Addr{}, Reachable: map[netip.Addr]netip.Addr{}}
	addHosts := func(to netip.Addr, hosts ...string) {
		for _, h := range hosts {
			r.names.Hosts[PlainName(h)] = to
		}
	}
	for h, a := range w.Hosts {
		addHosts(a, h)
	}
	for _, m := range w.Machines {
		r.callers[m.Address] = m.Name
		addHosts(m.Address, m.Hosts...)
		if m.Public.IsValid() {
			r.names.Reachable[m.Public] = m.Address
		}
	}
	var out []Balancer
	placed := r.placeBalancers(w.Balancers)
	for _, b := range w.Balancers {
		at := placed[b.Name]
		if !at.IsValid() {
			continue
		}
		addHosts(at, b.Hosts...)
		o := Balancer{Name: b.Name, Address: at}
		for _, f := range b.Fronts {
			front := Front{Port: f.Port, Target: f.Target, Hosts: []string{}}
			for _, name := range f.Machines {
				if m, ok := machines[name]; ok {
					front.Hosts = append(front.Hosts, m.Address.String())
				}
			}
			o.Fronts = append(o.Fronts, front)
		}
		out = append(out, o)
	}
	return out
}

// placeBalancers returns the addresses of load balancers by name. The caller holds the lock.
func (r *Reconciler) placeBalancers(balancers []WantedBalancer) map[string]netip.Addr {
	out, taken := map[string]netip.Addr{}, map[netip.Addr]bool{}
	kept := map[string]netip.Addr{}
	for _, b := range balancers {
		if out[b.Name] = b.Address; !b.Address.IsValid() {
			kept[b.Name] = r.fronts[b.Name]
			out[b.Name] = kept[b.Name]
		}
		taken[out[b.Name]] = true
	}
	for _, b := range balancers {
		if !out[b.Name].IsValid() {
			a := r.freeAddress(b.Subnets, taken)
			out[b.Name], kept[b.Name], taken[a] = a, a, true
		}
	}
	r.fronts = kept
	return out
}

// freeAddress returns an address in one of the subnets that no machine has, and that is not taken: the
// last one, because emulators give the first ones to machines. The very last is for broadcasts.
func (r *Reconciler) freeAddress(subnets []netip.Prefix, taken map[netip.Addr]bool) netip.Addr {
	for _, cidr := range subnets {
		if !cidr.Addr().Is4() {
			continue
		}
		for a := ranges.Last(cidr).Prev(); cidr.Contains(a); a = a.Prev() {
			if r.callers[a] == "" && !taken[a] {
				return a
			}
		}
	}
	return netip.Addr{}
}

// Lookup implements Play.Lookup.
func (r *Reconciler) Lookup(name, kind string) (records []string, known bool) {
	r.mu.Lock()
	names := r.names // it is replaced, and never changed
	r.mu.Unlock()
	return names.Lookup(name, kind)
}

// Caller returns the name of the machine that sent a request, which its address shows, as metadata
// services identify callers. If there is none, it responds with an error, and ok is false.
func (r *Reconciler) Caller(w http.ResponseWriter, request *http.Request) (name string, ok bool) {
	host, _, _ := net.SplitHostPort(request.RemoteAddr)
	if at, err := netip.ParseAddr(host); err == nil {
		r.mu.Lock()
		name, ok = r.callers[at.Unmap()]
		r.mu.Unlock()
	}
	if !ok {
		http.Error(w, "no machine has the address "+host, http.StatusNotFound)
	}
	return name, ok
}

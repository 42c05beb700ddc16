package rehearsal

import (
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"

	"kops.local/kops/internal/platform/rehearsal"
)

// addresses maps load balancers' host names to their addresses, which never change.
type addresses map[string]netip.Addr

// balancers returns the load balancers that this host emulates: each has
// an address in one of its subnets.
func (p *play) balancers(now snapshot) []rehearsal.Balancer {
	alive := map[string]bool{}
	var out []rehearsal.Balancer
	for _, b := range now.balancers {
		at := p.addressOf(now, b)
		if !at.IsValid() {
			continue
		}
		alive[b.host] = true
		r := rehearsal.Balancer{Name: b.name, Address: at}
		for _, f := range b.fronts {
			hosts := []string{}
			for _, id := range f.instances {
				if i := now.instances[id]; i != nil {
					hosts = append(hosts, i.Address.String())
				}
			}
			r.Fronts = append(r.Fronts, rehearsal.Front{Port: f.port, Target: f.target, Hosts: hosts})
		}
		out = append(out, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for host := range p.fronts {
		if !alive[host] {
			delete(p.fronts, host)
		}
	}
	return out
}

// addressOf returns the address of a load balancer: a new one gets the last free address in its
// first subnet, because the emulator assigns the first ones to instances.
func (p *play) addressOf(now snapshot, b balancer) netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.fronts[b.host]; ok {
		return a
	}
	taken := map[netip.Addr]bool{}
	for _, a := range p.fronts {
		taken[a] = true
	}
	for _, id := range b.subnets {
		cidr, err := netip.ParsePrefix(aws.ToString(now.subnets[id].CidrBlock))
		if err != nil || !cidr.Addr().Is4() {
			continue
		}
		for a := lastAddress(cidr).Prev(); cidr.Contains(a); a = a.Prev() { // the last is the broadcast address
			if !taken[a] && now.byAddress[a] == nil {
				p.fronts[b.host] = a
				return a
			}
		}
	}
	return netip.Addr{}
}

// lastAddress returns the last address of an IPv4 range.
func lastAddress(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// Package accesstest compares a platform's rules with the table of who may reach whom, for many
// clusters: nothing in the table is closed, and nothing else is open, except reviewed differences.
//
// It is for tests only, and must not know any platform.
package accesstest

import (
	"fmt"
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/access"
)

// Protocols that the table does not name.
const (
	ICMP   access.Protocol = "icmp"
	ICMPv6 access.Protocol = "icmpv6"
	Other  access.Protocol = "other"
)

// protocols are all protocols.
func protocols() []access.Protocol {
	return []access.Protocol{access.TCP, access.UDP, access.IPIP, ICMP, ICMPv6, "esp", "ah", "sctp", Other}
}

// Exception is a reviewed difference between the table and a platform's rules.
type Exception struct {
	// From and To are the parties; empty: any. Users match any addresses.
	From, To access.Party
	// Ranges are the only addresses, if From is empty.
	Ranges   []string
	Protocol access.Protocol // empty: all
	Ports    access.Range    // zero: all
	// When reports whether it applies to a cluster; nil: to all.
	When func(*api.ClusterSpec) bool
	Why  string
}

// Judge knows the differences of one platform: what is open although it is not in the table, and what
// is closed although it is.
type Judge struct {
	Wider, Narrower []Exception
	used            map[string]bool
}

// Check reports every other difference between the table and what is open in a cluster. Ranges of
// addresses are compared as text.
func (j *Judge) Check(t *testing.T, name string, c *api.Cluster, groups []*api.InstanceGroup, table, open []access.Flow) {
	t.Helper()
	for _, p := range j.problems(c, groups, table, open) {
		t.Errorf("%s: %s", name, p)
	}
}

// Done reports exceptions that no cluster needed.
func (j *Judge) Done(t *testing.T) {
	t.Helper()
	for _, e := range slices.Concat(j.Wider, j.Narrower) {
		if !j.used[e.Why] {
			t.Errorf("no cluster differs from the table so: %s; remove the exception", e.Why)
		}
	}
}

func (j *Judge) problems(c *api.Cluster, groups []*api.InstanceGroup, table, open []access.Flow) []string {
	hasAPIServers := len(access.GroupsOf(groups, api.RoleAPIServer)) > 0
	want, have := cellsOf(table, hasAPIServers), cellsOf(open, hasAPIServers)
	return slices.Concat(j.differences("closed", &c.Spec, want, have, j.Narrower), j.differences("open", &c.Spec, have, want, j.Wider))
}

// differences lists what is in a but not in b, except what is reviewed.
func (j *Judge) differences(what string, s *api.ClusterSpec, a, b map[cell][]access.Range, reviewed []Exception) []string {
	var out []string
	for at, ranges := range a {
		left := minus(ranges, b[at])
		for _, e := range reviewed {
			if !e.matches(at) || e.When != nil && !e.When(s) {
				continue
			}
			rest := minus(left, []access.Range{portsOf(at.protocol, e.Ports)})
			if !slices.Equal(rest, left) {
				if j.used == nil {
					j.used = map[string]bool{}
				}
				j.used[e.Why], left = true, rest
			}
		}
		for _, r := range left {
			out = append(out, fmt.Sprintf("%s: %s%s → %s, %s %s", what, at.from, at.addresses, at.to, at.protocol, r))
		}
	}
	slices.Sort(out)
	return out
}

// cell is a part of the table: traffic of one protocol from one role, or from addresses, to one role.
type cell struct {
	from      access.Party
	addresses string
	to        access.Party
	protocol  access.Protocol
}

func (e Exception) matches(at cell) bool {
	from := is(e.From, at.from) || e.From == access.Users && at.addresses != ""
	if len(e.Ranges) > 0 {
		from = slices.Contains(e.Ranges, at.addresses)
	}
	return from && is(e.To, at.to) && (e.Protocol == "" || e.Protocol == at.protocol)
}

// is reports whether a party that may be empty or have several roles includes one.
func is(p, one access.Party) bool {
	return p == "" || p == one || p == access.Servers && (one == access.ControlPlanes || one == access.APIServers)
}

// cellsOf returns the ports that flows open in each cell.
func cellsOf(flows []access.Flow, hasAPIServers bool) map[cell][]access.Range {
	roles := func(p access.Party) []access.Party {
		switch {
		case p == access.Servers && hasAPIServers:
			return []access.Party{access.ControlPlanes, access.APIServers}
		case p == access.Servers:
			return []access.Party{access.ControlPlanes}
		}
		return []access.Party{p}
	}
	out := map[cell][]access.Range{}
	for _, f := range flows {
		var from []cell
		for _, r := range f.Ranges {
			from = append(from, cell{addresses: r})
		}
		if len(f.Ranges) == 0 && f.From != access.Users && f.From != access.Pods {
			for _, p := range roles(f.From) {
				from = append(from, cell{from: p})
			}
		}
		for _, at := range from {
			for _, at.to = range roles(f.To) {
				for _, at.protocol = range protocols() {
					if f.Protocol == "" || f.Protocol == at.protocol {
						out[at] = append(out[at], portsOf(at.protocol, f.Ports))
					}
				}
			}
		}
	}
	return out
}

// portsOf returns a range of ports, all if it is zero; the range of a protocol without ports is {0, 0}.
func portsOf(p access.Protocol, r access.Range) access.Range {
	switch {
	case p != access.TCP && p != access.UDP:
		return access.Range{}
	case r == access.Range{}:
		return access.Ports(1, 65535)
	}
	return r
}

// minus returns the ports in a that are not in b.
func minus(a, b []access.Range) []access.Range {
	for _, hole := range b {
		var rest []access.Range
		for _, r := range a {
			if hole.Last < r.First || r.Last < hole.First {
				rest = append(rest, r)
				continue
			}
			if r.First < hole.First {
				rest = append(rest, access.Ports(r.First, hole.First-1))
			}
			if hole.Last < r.Last {
				rest = append(rest, access.Ports(hole.Last+1, r.Last))
			}
		}
		a = rest
	}
	return a
}

package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/aws/kinds"
)

// rule is a firewall rule: traffic into a group, or out of it.
type rule struct {
	// name is fixed for some rules; if empty, it is derived from the rule's ends.
	name   string
	group  securityGroup
	egress bool
	peer   peer
	// protocol is "tcp", "udp", "icmp", "icmpv6", a protocol's number, or "" for all.
	protocol string
	// from and to are ports, or ICMP's type and code. If both are 0, all are allowed.
	from, to int
}

// peer is the other end of a rule: a group, or an address range.
type peer struct {
	group *securityGroup
	cidr  string // a CIDR, or a prefix list "pl-…"
}

func (p peer) isPrefixList() bool { return strings.HasPrefix(p.cidr, "pl-") }
func (p peer) isIPv6() bool       { return strings.Contains(p.cidr, ":") }

// String returns the peer's name in names of rules. A prefix list may contain any addresses.
func (p peer) String() string {
	switch {
	case p.group != nil:
		return p.group.title
	case p.isPrefixList():
		return anyIPv4
	}
	return p.cidr
}

// ipInIP is the number of the protocol that encapsulates IPv4 in IPv4 (RFC 2003).
const ipInIP = "4"

// portHTTPSPassed is the port of the API's load balancer, and of machines, for TCP to the API, if TLS is
// terminated on the usual port.
const portHTTPSPassed = 8443

// tooBigV4 allows the message that path MTU discovery needs: "fragmentation needed".
func tooBigV4() rule { return rule{protocol: "icmp", from: 3, to: 4} }

// tooBigV6 is the same for IPv6, where all ICMP messages are allowed.
func tooBigV6() rule { return rule{protocol: "icmpv6", from: -1, to: -1} }

// autoName derives a rule's name from its ends.
func (r rule) autoName(source string) string {
	from, to, direction := source, r.group.title, "ingress"
	if r.egress {
		from, to, direction = to, from, "egress"
	}
	protocol := r.protocol
	if protocol == "" {
		protocol = "all"
	}
	return fmt.Sprintf("from-%s-%s-%s-%dto%d-%s", from, direction, protocol, r.from, r.to, to)
}

// want returns the rule for AWS, without its tags.
func (r rule) want() kinds.SecurityGroupRule {
	w := kinds.SecurityGroupRule{Group: r.group.id(), Type: "ingress", Protocol: r.protocol, FromPort: r.from, ToPort: r.to}
	if r.egress {
		w.Type = "egress"
	}
	switch {
	case r.protocol == "":
		w.Protocol = "-1"
	case r.from == 0 && r.to == 0:
		w.ToPort = 65535
	}
	switch {
	case r.peer.group != nil:
		w.Source = r.peer.group.id()
	case r.peer.isPrefixList():
		w.PrefixLists = []string{r.peer.cidr}
	case r.peer.isIPv6():
		w.IPv6CIDRs = []string{r.peer.cidr}
	default:
		w.CIDRs = []string{r.peer.cidr}
	}
	return w
}

// identity returns everything by which AWS distinguishes rules.
func (r rule) identity() string {
	from := r.peer.cidr
	if r.peer.group != nil {
		from = r.peer.group.identity()
	}
	return fmt.Sprintf("%s %t %s %s %d %d", r.group.identity(), r.egress, from, r.protocol, r.from, r.to)
}

// ruleNodes names the rules. It creates duplicates only once, as when
// one existing group replaces two.
func (m *model) ruleNodes(all []rule) []resource.Node {
	var rules []rule
	seen, named := map[string]bool{}, map[string]int{}
	for _, r := range all {
		if id := r.identity(); !seen[id] {
			seen[id] = true
			rules = append(rules, r)
			if r.name == "" {
				named[r.autoName(r.peer.String())]++
			}
		}
	}
	var nodes []resource.Node
	for _, r := range rules {
		name := r.name
		if name == "" {
			name = r.autoName(r.peer.String())
			if r.peer.isPrefixList() && named[name] > 1 { // then each is named by its own identifier
				name = r.autoName(r.peer.cidr)
			}
		}
		want := r.want()
		want.Tags = m.tags(name)
		nodes = append(nodes, kinds.SecurityGroupRules.New(name, want))
	}
	return nodes
}

// portGaps returns the ranges of ports between the blocked ones.
func portGaps(blocked []int) []access.Range {
	blocked = slices.Sorted(slices.Values(blocked))
	var gaps []access.Range
	next := 1
	for _, p := range append(blocked, 65536) {
		if p > next {
			gaps = append(gaps, access.Ports(next, p-1))
		}
		next = max(next, p+1)
	}
	return gaps
}

package emulator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// networkKinds returns the network kinds.
func networkKinds() []*collection {
	return []*collection{
		{name: "networks", word: "network", verbs: []string{"insert", "get", "list", "delete", "patch"}, quota: "NETWORKS",
			users:   []string{"subnetworks", "firewalls", "routers", "routes", "addresses", "instances", "forwardingRules"},
			mutable: []string{"mtu", "routingConfig", "networkFirewallPolicyEnforcementOrder", "enableUlaInternalIpv6", "internalIpv6Range"},
			shape:   shapeNetwork, onCreate: onNetworkCreated, show: (*Emulator).showNetwork},
		{name: "subnetworks", word: "subnetwork", verbs: []string{"insert", "get", "list", "aggregatedList", "delete", "patch"}, quota: "SUBNETWORKS",
			refs: []ref{{"network", []string{"networks"}}}, users: []string{"instances", "addresses", "forwardingRules", "routers"},
			mutable:     []string{"secondaryIpRanges", "stackType", "ipv6AccessType", "externalIpv6Prefix", "internalIpv6Prefix", "ipv6CidrRange", "privateIpGoogleAccess", "privateIpv6GoogleAccess", "logConfig", "enableFlowLogs", "role"},
			fingerprint: "fingerprint", needsFingerprint: true, shape: shapeSubnetwork, onCreate: onSubnetworkCreated},
		{name: "firewalls", word: "firewall", verbs: []string{"insert", "get", "list", "delete", "patch", "update"}, quota: "FIREWALLS",
			refs: []ref{{"network", []string{"networks"}}}, shape: shapeFirewall,
			mutable: []string{"allowed", "denied", "sourceRanges", "destinationRanges", "sourceTags", "targetTags", "sourceServiceAccounts", "targetServiceAccounts", "priority", "disabled", "logConfig", "description"}},
		{name: "routers", word: "router", verbs: []string{"insert", "get", "list", "aggregatedList", "delete", "patch", "update"}, quota: "ROUTERS",
			refs:    []ref{{"network", []string{"networks"}}, {"nats[].subnetworks[].name", []string{"subnetworks"}}, {"nats[].natIps[]", []string{"addresses"}}},
			mutable: []string{"nats", "bgp", "bgpPeers", "interfaces", "description"}, shape: shapeRouter},
		{name: "routes", word: "route", verbs: []string{"insert", "get", "list", "delete"}, quota: "ROUTES",
			refs: []ref{{"network", []string{"networks"}}, {"nextHopInstance", []string{"instances"}}}, shape: shapeRoute, show: showRoute},
	}
}

func networkHandlers() map[string]handler {
	return map[string]handler{"compute.subnetworks.expandIpCidrRange": (*call).expandRange}
}

func shapeNetwork(c *call, o, _ object) error {
	if _, said := o["autoCreateSubnetworks"]; !said {
		return invalid("resource.autoCreateSubnetworks", "", "Legacy networks can no longer be created: set true or false.")
	}
	if n := tree.Number(o, "mtu"); o["mtu"] != nil && (n < 1300 || n > 8896) {
		return invalid("resource.mtu", n, "Must be between 1300 and 8896.")
	}
	if tree.Bool(o, "enableUlaInternalIpv6") && o["internalIpv6Range"] == nil {
		c.numbers++
		o["internalIpv6Range"] = fmt.Sprintf("fd20:0:%x::/48", c.numbers)
	}
	tree.SetDefault(o, "routingConfig", object{"routingMode": "REGIONAL"})
	tree.SetDefault(o, "networkFirewallPolicyEnforcementOrder", "AFTER_CLASSIC_FIREWALL")
	return nil
}

// onNetworkCreated creates the default route, and the subnetworks of an auto-mode network.
func onNetworkCreated(e *Emulator, x *entry) {
	e.addOwnedRoute(x, object{"name": e.routeName(), "network": x.o["selfLink"], "destRange": "0.0.0.0/0", "priority": int64(1000), "description": "Default route to the Internet.",
		"nextHopGateway": link(scopeOf(x.path) + "/gateways/default-internet-gateway")})
	if !tree.Bool(x.o, "autoCreateSubnetworks") {
		return
	}
	at := netip.MustParseAddr("10.128.0.0")
	for _, region := range e.regions() {
		scope := strings.Join(strings.Split(x.path, "/")[:2], "/") + "/regions/" + region
		made, err := e.kinds["subnetworks"].make(&call{Emulator: e}, scope, object{"name": tree.Text(x.o, "name"), "network": x.o["selfLink"], "ipCidrRange": at.String() + "/20"})
		if err != nil {
			continue // the name is already taken, as can happen at Google
		}
		made.created, made.busy, made.owner = true, 0, x.path
		onSubnetworkCreated(e, made)
		bytes := at.As4()
		bytes[2] += 16
		at = netip.AddrFrom4(bytes)
	}
}

func (e *Emulator) routeName() string { return fmt.Sprintf("default-route-%016x", e.Random.Uint64()) }

// addOwnedRoute creates a route that is deleted with its owner.
func (e *Emulator) addOwnedRoute(x *entry, route object) {
	path := strings.Join(strings.Split(x.path, "/")[:2], "/") + "/global/routes/" + tree.Text(route, "name")
	route["id"], route["selfLink"], route["creationTimestamp"] = e.newID(), link(path), stamp(e.Now())
	e.entries[path] = &entry{path: path, kind: e.kinds["routes"], o: route, created: true, owner: x.path}
}

// showNetwork adds the fields of a network that depend on its subnetworks.
func (e *Emulator) showNetwork(x *entry, o object) {
	o["selfLinkWithId"] = link(scopeOf(x.path) + "/networks/" + tree.Text(o, "id"))
	var subnets []string
	for _, y := range e.entries {
		if y.kind == e.kinds["subnetworks"] && y.created && y.o["network"] == x.o["selfLink"] {
			subnets = append(subnets, tree.Text(y.o, "selfLink"))
		}
	}
	if slices.Sort(subnets); len(subnets) > 0 {
		o["subnetworks"] = tree.ListOf(subnets)
	}
}

// cidr parses an IPv4 range, whose host part must be zero.
func cidr(field, s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Masked() != p {
		return p, invalid(field, s, "Must be a CIDR address range that begins at its first address.")
	}
	return p, nil
}

// rangesOf returns all ranges of a subnetwork.
func rangesOf(o object) []string {
	out := []string{tree.Text(o, "ipCidrRange")}
	for _, r := range tree.Subs(o, "secondaryIpRanges") {
		out = append(out, tree.Text(r, "ipCidrRange"))
	}
	return out
}

func shapeSubnetwork(c *call, o, old object) error {
	if o["network"] == nil {
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.network' not specified")
	}
	own, err := cidr("resource.ipCidrRange", tree.Text(o, "ipCidrRange"))
	if err != nil {
		return err
	}
	if own.Bits() < 4 || own.Bits() > 29 {
		return invalid("resource.ipCidrRange", own, "Must be between /4 and /29.")
	}
	mine := []netip.Prefix{own}
	names := map[string]bool{}
	for i, r := range tree.Subs(o, "secondaryIpRanges") {
		field := fmt.Sprintf("resource.secondaryIpRanges[%d]", i)
		p, err := cidr(field+".ipCidrRange", tree.Text(r, "ipCidrRange"))
		switch {
		case err != nil:
			return err
		case tree.Text(r, "rangeName") == "" || names[tree.Text(r, "rangeName")]:
			return invalid(field+".rangeName", r["rangeName"], "The name must be unique within the subnetwork.")
		case slices.ContainsFunc(mine, p.Overlaps):
			return invalid(field+".ipCidrRange", p, fmt.Sprintf("Invalid IPCidrRange: %s conflicts with another range of the subnetwork.", p))
		}
		names[tree.Text(r, "rangeName")] = true
		mine = append(mine, p)
	}
	if err := c.checkDisjoint(o, mine); err != nil {
		return err
	}
	if old != nil {
		if err := c.checkRangesKept(o, old); err != nil {
			return err
		}
	}
	tree.SetDefaults(o, object{"purpose": "PRIVATE", "stackType": "IPV4_ONLY", "privateIpGoogleAccess": false, "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS", "allowSubnetCidrRoutesOverlap": false})
	o["gatewayAddress"] = own.Addr().Next().String()
	return c.assignIPv6Range(o)
}

// assignIPv6Range assigns the IPv6 range of a dual-stack subnetwork.
func (c *call) assignIPv6Range(o object) error {
	access := tree.Text(o, "ipv6AccessType")
	switch {
	case tree.Text(o, "stackType") == "IPV4_ONLY" && access != "":
		return invalid("resource.ipv6AccessType", access, "It needs stackType IPV4_IPV6.")
	case tree.Text(o, "stackType") == "IPV4_ONLY":
		return nil
	case access == "":
		return invalid("resource.ipv6AccessType", access, "It must be specified with stackType IPV4_IPV6.")
	case o["ipv6CidrRange"] != nil:
		return nil
	}
	c.numbers++
	if access == "EXTERNAL" {
		o["externalIpv6Prefix"] = fmt.Sprintf("2600:1900:4000:%x::/64", c.numbers)
		o["ipv6CidrRange"] = o["externalIpv6Prefix"]
		return nil
	}
	whole, own := strings.CutSuffix(tree.Text(c.entries[pathOf(tree.Text(o, "network"))].o, "internalIpv6Range"), "::/48")
	if !own {
		return invalid("resource.ipv6AccessType", access, "The network has no internal IPv6 range: it needs enableUlaInternalIpv6.")
	}
	o["internalIpv6Prefix"] = fmt.Sprintf("%s:%x::/64", whole, c.numbers)
	o["ipv6CidrRange"] = o["internalIpv6Prefix"]
	return nil
}

// checkDisjoint rejects ranges that overlap with another subnetwork of the network.
func (c *call) checkDisjoint(o object, mine []netip.Prefix) error {
	for _, x := range c.entries {
		if x.kind != c.kinds["subnetworks"] || x.o["network"] != o["network"] || o["selfLink"] == x.o["selfLink"] {
			continue
		}
		for _, other := range rangesOf(x.o) {
			for _, p := range mine {
				if theirs := netip.MustParsePrefix(other); theirs.Overlaps(p) {
					return invalid("resource.ipCidrRange", p, fmt.Sprintf("Invalid IPCidrRange: %s conflicts with existing subnetwork '%s' in region '%s'.", p, tree.Text(x.o, "name"), lastPart(tree.Text(x.o, "region"), "/")))
				}
			}
		}
	}
	return nil
}

// checkRangesKept rejects the removal of a secondary range that an instance uses.
func (c *call) checkRangesKept(o, old object) error {
	for _, r := range tree.Subs(old, "secondaryIpRanges") {
		if slices.ContainsFunc(tree.Subs(o, "secondaryIpRanges"), func(s object) bool { return tree.Equal(s, r) }) {
			continue
		}
		for path, x := range c.entries {
			if x.kind != c.kinds["instances"] {
				continue
			}
			for _, nic := range tree.Subs(x.o, "networkInterfaces") {
				for _, alias := range tree.Subs(nic, "aliasIpRanges") {
					if nic["subnetwork"] == old["selfLink"] && alias["subnetworkRangeName"] == r["rangeName"] {
						return inUseError(c.entries[pathOf(tree.Text(old, "selfLink"))], path)
					}
				}
			}
		}
	}
	return nil
}

// onSubnetworkCreated creates the local route of a subnetwork.
func onSubnetworkCreated(e *Emulator, x *entry) {
	e.addOwnedRoute(x, object{"name": e.routeName(), "network": x.o["network"], "destRange": x.o["ipCidrRange"], "priority": int64(0), "nextHopNetwork": x.o["network"],
		"description": "Default local route to the subnetwork " + tree.Text(x.o, "ipCidrRange") + "."})
}

func (c *call) expandRange() (object, error) {
	k := c.kinds["subnetworks"]
	x, err := k.findChangeable(c)
	if err != nil {
		return nil, err
	}
	wider, err := cidr("ipCidrRange", tree.Text(c.body, "ipCidrRange"))
	if err != nil {
		return nil, err
	}
	if now := netip.MustParsePrefix(tree.Text(x.o, "ipCidrRange")); !wider.Contains(now.Addr()) || wider.Bits() >= now.Bits() {
		return nil, invalid("ipCidrRange", wider, "It must contain the present range.")
	}
	if err := c.checkDisjoint(x.o, []netip.Prefix{wider}); err != nil {
		return nil, err
	}
	return c.startChange("expandIpCidrRange", x, func(context.Context) error {
		x.o["ipCidrRange"], x.o["gatewayAddress"] = wider.String(), wider.Addr().Next().String()
		k.setFingerprint(x.o)
		return nil
	})
}

func shapeRouter(c *call, o, _ object) error {
	for i, nat := range tree.Subs(o, "nats") {
		field := fmt.Sprintf("resource.nats[%d]", i)
		from := tree.Text(nat, "sourceSubnetworkIpRangesToNat")
		switch listed := len(tree.Subs(nat, "subnetworks")) > 0; {
		case tree.Text(nat, "name") == "":
			return refusal(http.StatusBadRequest, "required", "Required field '%s.name' not specified", field)
		case from == "":
			return refusal(http.StatusBadRequest, "required", "Required field '%s.sourceSubnetworkIpRangesToNat' not specified", field)
		case listed != (from == "LIST_OF_SUBNETWORKS"):
			return invalid(field+".subnetworks", len(tree.Subs(nat, "subnetworks")), "Subnetworks are listed if and only if sourceSubnetworkIpRangesToNat is LIST_OF_SUBNETWORKS.")
		case (tree.Text(nat, "natIpAllocateOption") == "MANUAL_ONLY") != (nat["natIps"] != nil):
			return invalid(field+".natIps", nat["natIps"], "Addresses are listed if and only if natIpAllocateOption is MANUAL_ONLY.")
		}
		for _, s := range tree.Subs(nat, "subnetworks") {
			if err := c.checkSingleNAT(o, field, tree.Text(s, "name")); err != nil {
				return err
			}
			if len(tree.Texts(s, "sourceIpRangesToNat")) == 0 {
				return refusal(http.StatusBadRequest, "required", "Required field '%s.subnetworks.sourceIpRangesToNat' not specified", field)
			}
		}
		tree.SetDefaults(nat, object{"type": "PUBLIC", "autoNetworkTier": "PREMIUM", "enableEndpointIndependentMapping": false, "endpointTypes": list{"ENDPOINT_TYPE_VM"}})
	}
	return nil
}

// checkSingleNAT rejects a second NAT for a subnetwork.
func (c *call) checkSingleNAT(o object, field, subnet string) error {
	for _, x := range c.entries {
		if x.kind != c.kinds["routers"] || x.o["selfLink"] == o["selfLink"] {
			continue
		}
		for _, nat := range tree.Subs(x.o, "nats") {
			for _, s := range tree.Subs(nat, "subnetworks") {
				if tree.Text(s, "name") == subnet {
					return invalid(field+".subnetworks", subnet, "The subnetwork is already used by NAT '"+tree.Text(nat, "name")+"' of router '"+tree.Text(x.o, "name")+"'.")
				}
			}
		}
	}
	return nil
}

// showRoute adds a warning to a route whose instance no longer exists.
func showRoute(e *Emulator, x *entry, o object) {
	if hop := tree.Text(x.o, "nextHopInstance"); hop != "" && e.entries[pathOf(hop)] == nil {
		o["warnings"] = list{object{"code": "NEXT_HOP_INSTANCE_NOT_FOUND", "message": "Referenced instance '" + pathOf(hop) + "' does not exist."}}
	}
}

func shapeRoute(_ *call, o, _ object) error {
	if _, err := netip.ParsePrefix(tree.Text(o, "destRange")); err != nil {
		return invalid("resource.destRange", o["destRange"], "Must be a CIDR address range.")
	}
	hops := 0
	for field := range o {
		if strings.HasPrefix(field, "nextHop") {
			hops++
		}
	}
	if hops != 1 {
		return invalid("resource.nextHop", hops, "Exactly one next hop must be specified.")
	}
	if gateway := tree.Text(o, "nextHopGateway"); gateway != "" {
		if lastPart(gateway, "/") != "default-internet-gateway" {
			return invalid("resource.nextHopGateway", gateway, "The URL is malformed.")
		}
		o["nextHopGateway"] = link(scopeOf(pathOf(tree.Text(o, "network"))) + "/gateways/default-internet-gateway")
	}
	return nil
}

var (
	portRange      = pattern(`^\d{1,5}(-\d{1,5})?$`)
	protocolNumber = pattern(`^\d{1,3}$`)
	tag            = pattern(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// ported are the protocols with ports.
var ported = []string{"tcp", "udp", "sctp", "6", "17", "132"}

// protocols are the protocol names that firewalls accept; others are given by number.
var protocols = []string{"tcp", "udp", "icmp", "esp", "ah", "ipip", "sctp", "all"}

func shapeFirewall(c *call, o, _ object) error {
	if o["network"] == nil {
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.network' not specified")
	}
	tree.SetDefaults(o, object{"direction": "INGRESS", "priority": int64(1000), "disabled": false, "logConfig": object{"enable": false}})
	if p := tree.Number(o, "priority"); p < 0 || p > 65535 {
		return invalid("resource.priority", p, "Must be between 0 and 65535.")
	}
	if (len(tree.Subs(o, "allowed")) > 0) == (len(tree.Subs(o, "denied")) > 0) {
		return refusal(http.StatusBadRequest, "required", "One of Required fields 'resource.allowed' or 'resource.denied' must be specified")
	}
	ingress := tree.Text(o, "direction") == "INGRESS"
	side, other := "sourceRanges", "destinationRanges"
	if !ingress {
		side, other = other, side
		if len(tree.Texts(o, "sourceTags")) > 0 {
			return invalid("resource.sourceTags", o["sourceTags"], "An egress rule has no source tags.")
		}
	}
	if len(tree.Texts(o, other)) > 0 {
		return invalid("resource."+other, o[other], "A rule of direction "+tree.Text(o, "direction")+" cannot have it.")
	}
	if o[side] == nil && o["sourceTags"] == nil && o["sourceServiceAccounts"] == nil {
		o[side] = list{"0.0.0.0/0"}
	}
	six, err := family(o, side)
	if err != nil {
		return err
	}
	for _, field := range []string{"sourceTags", "targetTags"} {
		for i, t := range tree.Texts(o, field) {
			if !tag().MatchString(t) {
				return invalid(fmt.Sprintf("resource.%s[%d]", field, i), t, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
			}
		}
		if o[field] != nil && (o["sourceServiceAccounts"] != nil || o["targetServiceAccounts"] != nil) {
			return invalid("resource."+field, o[field], "Tags and service accounts cannot be mixed.")
		}
	}
	for _, field := range []string{"allowed", "denied"} {
		for i, rule := range tree.Subs(o, field) {
			if err := shapeRule(fmt.Sprintf("resource.%s[%d]", field, i), rule, six); err != nil {
				return err
			}
		}
	}
	return nil
}

// family reports whether a firewall's ranges are IPv6, and rejects mixed ones.
func family(o object, field string) (six bool, err error) {
	for i, r := range tree.Texts(o, field) {
		p, err := netip.ParsePrefix(r)
		if err != nil || p.Masked() != p {
			return false, invalid(fmt.Sprintf("resource.%s[%d]", field, i), r, "Must be a valid CIDR address range.")
		}
		if i > 0 && six != p.Addr().Is6() {
			return false, invalid("resource."+field, r, "Ranges of IPv4 and of IPv6 cannot be mixed.")
		}
		six = p.Addr().Is6()
	}
	return six, nil
}

func shapeRule(field string, rule object, six bool) error {
	protocol := strings.ToLower(tree.Text(rule, "IPProtocol"))
	switch {
	case protocol == "":
		return refusal(http.StatusBadRequest, "required", "Required field '%s.IPProtocol' not specified", field)
	case !protocolNumber().MatchString(protocol) && !slices.Contains(protocols, protocol):
		return invalid(field+".IPProtocol", protocol, "Must be a known protocol, or its number.")
	case six && (protocol == "icmp" || protocol == "1"):
		return invalid(field+".IPProtocol", protocol, "ICMP is for IPv4 only; for IPv6, use protocol 58.")
	case !six && protocol == "58":
		return invalid(field+".IPProtocol", protocol, "ICMPv6 is for IPv6 only.")
	case len(tree.Texts(rule, "ports")) > 0 && !slices.Contains(ported, protocol):
		return invalid(field+".ports", rule["ports"], "The protocol has no ports.")
	}
	for i, p := range tree.Texts(rule, "ports") {
		if !portRange().MatchString(p) {
			return invalid(fmt.Sprintf("%s.ports[%d]", field, i), p, "Must be a port or a range of ports.")
		}
	}
	rule["IPProtocol"] = protocol
	return nil
}

package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/ranges"
	"kops.local/kops/internal/standin/tree"
)

// regions returns the names of all regions, sorted.
func (e *Emulator) regions() []string { return slices.Sorted(maps.Keys(e.o.Regions)) }

// usesAddress reports whether an object uses the address that address reserves.
func usesAddress(x, address *entry) bool {
	ip := tree.Text(address.o, "address")
	switch x.kind.name {
	case "forwardingRules":
		return x.o["IPAddress"] == ip && (address.o["subnetwork"] == nil || x.o["subnetwork"] == address.o["subnetwork"])
	case "instances":
		return hasAddress(x, ip, address.o["subnetwork"])
	}
	return false
}

// hasAddress reports whether an instance has an address: an internal one of subnetwork, or an external one
// if subnetwork is nil.
func hasAddress(x *entry, ip string, subnetwork any) bool {
	for _, nic := range tree.Subs(x.o, "networkInterfaces") {
		if subnetwork != nil && nic["networkIP"] == ip && nic["subnetwork"] == subnetwork {
			return true
		}
		for _, a := range tree.Subs(nic, "accessConfigs") {
			if subnetwork == nil && a["natIP"] == ip {
				return true
			}
		}
	}
	return false
}

// usedAddresses returns the used internal addresses of a subnetwork: its four reserved by Google, those of
// instances and forwarding rules, alias ranges, and reserved addresses, except the wanted one if
// its purpose is GCE_ENDPOINT.
func (e *Emulator) usedAddresses(subnet *entry, wanted string) []netip.Prefix {
	own := netip.MustParsePrefix(tree.Text(subnet.o, "ipCidrRange"))
	one := func(s string) []netip.Prefix {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil
		}
		return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	}
	out := one(own.Addr().String())
	out = append(out, one(own.Addr().Next().String())...)
	end := ranges.Last(own)
	out = append(out, netip.PrefixFrom(end, 32), netip.PrefixFrom(end.Prev(), 32))
	for _, x := range e.entries {
		switch {
		case x.kind == nil:
		case x.kind.name == "addresses" && x.o["address"] == wanted && x.o["purpose"] == "GCE_ENDPOINT":
		case x.kind.name == "addresses" && x.o["subnetwork"] == subnet.o["selfLink"]:
			out = append(out, one(tree.Text(x.o, "address"))...)
		case x.kind.name == "forwardingRules" && x.o["subnetwork"] == subnet.o["selfLink"]:
			out = append(out, one(tree.Text(x.o, "IPAddress"))...)
		case x.kind.name == "instances":
			for _, nic := range tree.Subs(x.o, "networkInterfaces") {
				if nic["subnetwork"] != subnet.o["selfLink"] {
					continue
				}
				out = append(out, one(tree.Text(nic, "networkIP"))...)
				for _, alias := range tree.Subs(nic, "aliasIpRanges") {
					if p, err := netip.ParsePrefix(tree.Text(alias, "ipCidrRange")); err == nil {
						out = append(out, p)
					}
				}
			}
		}
	}
	return out
}

// findFree returns the first block with that prefix length in a range that does not overlap the taken
// ones.
func findFree(within netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	for at := within.Addr(); within.Contains(at); {
		p := netip.PrefixFrom(at, bits)
		if !slices.ContainsFunc(taken, p.Overlaps) {
			return p, true
		}
		next := ranges.Last(p).Next()
		if !next.IsValid() {
			break
		}
		at = next
	}
	return netip.Prefix{}, false
}

// internalAddress returns an address in a subnetwork: the wanted one, or else a free one.
func (e *Emulator) internalAddress(field, subnetwork, wanted string) (string, error) {
	subnet := e.entries[pathOf(subnetwork)]
	own, taken := netip.MustParsePrefix(tree.Text(subnet.o, "ipCidrRange")), e.usedAddresses(subnet, wanted)
	if wanted == "" {
		p, ok := findFree(own, 32, taken)
		if !ok {
			return "", refusal(http.StatusBadRequest, "IP_SPACE_EXHAUSTED", "IP space of '%s' is exhausted.", subnet.path)
		}
		return p.Addr().String(), nil
	}
	a, err := netip.ParseAddr(wanted)
	switch {
	case err != nil || !own.Contains(a):
		return "", invalid(field, wanted, fmt.Sprintf("Requested internal IP address is not in the range of the subnetwork, %s.", own))
	case slices.ContainsFunc(taken, func(p netip.Prefix) bool { return p.Contains(a) }):
		return "", invalid(field, wanted, "Specified IP address is already in use.")
	}
	return wanted, nil
}

// newExternalAddress returns a new external address, in one of Google's ranges.
func (e *Emulator) newExternalAddress() string {
	e.numbers++
	n := e.numbers
	return netip.AddrFrom4([4]byte{34, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// addressKind returns the kind of regional reserved addresses.
func addressKind() *collection {
	return &collection{name: "addresses", word: "address", verbs: []string{"insert", "get", "list", "aggregatedList", "delete", "setLabels"},
		refs: []ref{{"subnetwork", []string{"subnetworks"}}, {"network", []string{"networks"}}}, users: []string{"forwardingRules", "instances", "routers"}, labelled: true, shape: shapeAddress, show: showUsers}
}

func shapeAddress(c *call, o, _ object) error {
	if err := checkLabels("resource.labels", tree.Sub(o, "labels")); err != nil {
		return err
	}
	tree.SetDefault(o, "addressType", "EXTERNAL")
	o["status"] = "RESERVED"
	purpose := tree.Text(o, "purpose")
	if tree.Text(o, "addressType") == "EXTERNAL" {
		if purpose != "" {
			return invalid("resource.purpose", purpose, "An external address has no purpose.")
		}
		if o["subnetwork"] != nil || o["network"] != nil {
			return invalid("resource.subnetwork", o["subnetwork"], "An external address is in no network.")
		}
		if o["address"] != nil {
			return invalid("resource.address", o["address"], "Google chooses external addresses.")
		}
		if err := c.checkQuota("STATIC_ADDRESSES", c.scope()+"/", 1); err != nil {
			return err
		}
		tree.SetDefault(o, "networkTier", "PREMIUM")
		o["address"] = c.newExternalAddress()
		return nil
	}
	if o["subnetwork"] == nil {
		return invalid("resource.subnetwork", "", "An internal address of a region needs a subnetwork.")
	}
	if place := "/regions/" + c.params["region"] + "/"; !strings.Contains(tree.Text(o, "subnetwork"), place) {
		return invalid("resource.subnetwork", o["subnetwork"], "The subnetwork is in another region.")
	}
	tree.SetDefault(o, "purpose", "GCE_ENDPOINT")
	if !slices.Contains([]string{"GCE_ENDPOINT", "SHARED_LOADBALANCER_VIP"}, tree.Text(o, "purpose")) {
		return invalid("resource.purpose", purpose, "The purpose does not fit an address in a subnetwork.")
	}
	a, err := c.internalAddress("resource.address", tree.Text(o, "subnetwork"), tree.Text(o, "address"))
	o["address"] = a
	return err
}

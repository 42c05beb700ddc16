package emulator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"kops.local/kops/internal/contract/ranges"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

func networkHandlers() map[string]handler {
	const one = " /networks/{id}"
	return map[string]handler{
		"POST /networks": (*call).createNetwork, "DELETE" + one: (*call).deleteNetwork,
		"POST" + one + "/actions/add_subnet":      (*call).addSubnet,
		"POST" + one + "/actions/delete_subnet":   (*call).deleteSubnet,
		"POST" + one + "/actions/add_route":       (*call).addRoute,
		"POST" + one + "/actions/delete_route":    (*call).deleteRoute,
		"POST" + one + "/actions/change_ip_range": (*call).changeRange,
	}
}

// widest are the ranges in which networks are (RFC 1918), and narrowest the longest prefix.
var widest = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}

const narrowest = 24

// parseRange parses the range of a network.
func parseRange(text string) (netip.Prefix, error) {
	r, err := netip.ParsePrefix(text)
	if err != nil || r != r.Masked() || r.Bits() > narrowest || !slices.ContainsFunc(widest, func(w netip.Prefix) bool { return w.Bits() <= r.Bits() && w.Contains(r.Addr()) }) {
		return r, invalid("ip_range", "%q is not a private range of /24 or more addresses", text)
	}
	return r, nil
}

func rangeOf(o object) netip.Prefix {
	r, _ := netip.ParsePrefix(tree.Text(o, "ip_range")) // it was checked
	return r
}

func subnetsOf(network object) []netip.Prefix { return subnetsIn(network, "") }

// subnetsIn returns the subnets of a network in a network zone; "": in all.
func subnetsIn(network object, zone string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range tree.Subs(network, "subnets") {
		if zone == "" || s["network_zone"] == zone {
			out = append(out, rangeOf(s))
		}
	}
	return out
}

func (c *call) createNetwork() (object, error) {
	r, err := parseRange(tree.Text(c.body, "ip_range"))
	if err != nil {
		return nil, err
	}
	o := object{"ip_range": r.String(), "subnets": list{}, "routes": list{}, "expose_routes_to_vswitch": c.body["expose_routes_to_vswitch"] == true}
	for _, s := range tree.Subs(c.body, "subnets") {
		if err := appendSubnet(o, s); err != nil {
			return nil, err
		}
	}
	for _, r := range tree.Subs(c.body, "routes") {
		if err := appendRoute(o, r); err != nil {
			return nil, err
		}
	}
	n, err := c.create("networks", o)
	if err != nil {
		return nil, err
	}
	return object{"network": c.shown(n)}, nil
}

// appendSubnet adds a subnet to a network: its range, or else the first free one.
func appendSubnet(network, s object) error {
	within, have := rangeOf(network), subnetsOf(network)
	free := func(r netip.Prefix) bool { return !slices.ContainsFunc(have, r.Overlaps) }
	if s["ip_range"] == nil {
		r := netip.PrefixFrom(within.Addr(), narrowest)
		for !free(r) && within.Contains(r.Addr()) {
			r = netip.PrefixFrom(ranges.Last(r).Next(), narrowest)
		}
		s["ip_range"] = r.String()
	}
	r, err := netip.ParsePrefix(tree.Text(s, "ip_range"))
	switch {
	case err != nil || r != r.Masked() || r.Bits() < within.Bits() || r.Bits() > 29 || !within.Contains(r.Addr()):
		return invalid("ip_range", "%q is not a range in the network %s", tree.Text(s, "ip_range"), within)
	case !free(r):
		return unprocessable("networks_overlap", "the range %s overlaps with another subnet", r)
	case s["type"] == "vswitch":
		return invalid("type", "this project has no vSwitch")
	}
	network["subnets"] = append(tree.Items(network, "subnets"), object{"type": s["type"], "ip_range": r.String(), "network_zone": s["network_zone"], "gateway": within.Addr().Next().String(), "vswitch_id": nil})
	return nil
}

// appendRoute adds a route to a network.
func appendRoute(network, r object) error {
	to, err := netip.ParsePrefix(tree.Text(r, "destination"))
	via, verr := netip.ParseAddr(tree.Text(r, "gateway"))
	switch {
	case err != nil || to != to.Masked():
		return invalid("destination", "%q is not a range", tree.Text(r, "destination"))
	case verr != nil || !rangeOf(network).Contains(via) || via == rangeOf(network).Addr().Next():
		return invalid("gateway", "%q is not an address that a server in the network can have", tree.Text(r, "gateway"))
	case slices.ContainsFunc(subnetsOf(network), to.Overlaps):
		return invalid("destination", "%s overlaps with a subnet", to)
	case tree.Has(network, "routes[].destination", to.String()):
		return taken("destination", "there is a route to %s", to)
	}
	network["routes"] = append(tree.Items(network, "routes"), object{"destination": to.String(), "gateway": via.String()})
	return nil
}

func (c *call) addSubnet() (object, error) {
	return c.change("networks", "add_subnet", func(n object) error { return appendSubnet(n, tree.Clone(c.body)) })
}

func (c *call) addRoute() (object, error) {
	return c.change("networks", "add_route", func(n object) error { return appendRoute(n, c.body) })
}

func (c *call) deleteRoute() (object, error) {
	return c.change("networks", "delete_route", func(n object) error {
		same := func(r any) bool { return tree.Equal(r, c.body) }
		if !slices.ContainsFunc(tree.Items(n, "routes"), same) {
			return invalid("destination", "there is no such route")
		}
		n["routes"] = slices.DeleteFunc(tree.Items(n, "routes"), same)
		return nil
	})
}

func (c *call) deleteSubnet() (object, error) {
	return c.change("networks", "delete_subnet", func(n object) error {
		same := func(s any) bool { return tree.Has(object{"": s}, ".ip_range", c.body["ip_range"]) }
		if !slices.ContainsFunc(tree.Items(n, "subnets"), same) {
			return invalid("ip_range", "there is no such subnet")
		}
		for used := range c.used(n["id"]) {
			if rangeOf(c.body).Contains(used) {
				return unprocessable("service_error", "cannot remove subnet because servers are attached to it")
			}
		}
		n["subnets"] = slices.DeleteFunc(tree.Items(n, "subnets"), same)
		return nil
	})
}

func (c *call) changeRange() (object, error) {
	return c.change("networks", "change_ip_range", func(n object) error {
		r, err := parseRange(tree.Text(c.body, "ip_range"))
		if old := rangeOf(n); err == nil && (r.Bits() > old.Bits() || r.Addr() != old.Addr()) {
			err = invalid("ip_range", "the range can only be extended")
		}
		n["ip_range"] = c.body["ip_range"]
		return err
	})
}

// deleteNetwork deletes a network, and detaches what is attached to it.
func (c *call) deleteNetwork() (object, error) {
	n, err := c.deletable("networks")
	if err != nil {
		return nil, err
	}
	for _, x := range c.store.Users(n) {
		c.leave(x, n)
		if x.Kind == "servers" {
			if err := c.plug(c.r.Context(), x); err != nil {
				return nil, err
			}
		}
	}
	c.store.Remove(n)
	return nil, nil
}

// used returns the addresses in a network that are in use.
func (e *Emulator) used(network any) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, x := range slices.Concat(e.store.All("servers"), e.store.All("load_balancers")) {
		for _, p := range tree.Subs(x.Object, "private_net") {
			if a, err := netip.ParseAddr(tree.Text(p, "ip")); err == nil && p["network"] == network {
				out[a] = true
			}
		}
	}
	return out
}

// freeAddress returns an address for what is in a location, in a subnet of its network zone: the wanted one, or
// else the first that is free.
func (e *Emulator) freeAddress(location object, n *standin.Entry, want string) (netip.Addr, error) {
	used, subnets := e.used(n.ID()), subnetsIn(n.Object, tree.Text(location, "network_zone"))
	gateway := rangeOf(n.Object).Addr().Next()
	if want != "" {
		a, err := netip.ParseAddr(want)
		if err != nil || !slices.ContainsFunc(subnets, func(r netip.Prefix) bool { return r.Contains(a) && r.Addr() != a && ranges.Last(r) != a }) {
			return a, invalid("ip", "%q is not an address in a subnet of the network", want)
		}
		if used[a] || a == gateway {
			return a, unprocessable("ip_not_available", "IP %s is already used", a)
		}
		return a, nil
	}
	for _, r := range subnets {
		for a := r.Addr().Next(); r.Contains(a) && a != ranges.Last(r); a = a.Next() {
			if !used[a] && a != gateway {
				return a, nil
			}
		}
	}
	return netip.Addr{}, unprocessable("no_subnet_available", "network has no free IP available or no subnets available")
}

// join attaches a server or a load balancer to a network, with the address in how, or else a free one.
func (e *Emulator) join(x, n *standin.Entry, how object) error {
	a, err := e.freeAddress(tree.Sub(x.Object, "location"), n, tree.Text(how, "ip"))
	if err != nil {
		return err
	}
	p := object{"network": n.ID(), "ip": a.String()}
	if x.Kind == "servers" {
		b := a.As4()
		p["alias_ips"], p["mac_address"] = append(list{}, tree.Items(how, "alias_ips")...), fmt.Sprintf("86:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
	}
	x.Object["private_net"] = append(tree.Items(x.Object, "private_net"), p)
	return nil
}

// leave detaches a server or a load balancer from a network.
func (e *Emulator) leave(x, n *standin.Entry) {
	x.Object["private_net"] = slices.DeleteFunc(tree.Items(x.Object, "private_net"), func(p any) bool { return tree.Has(object{"": p}, ".network", n.ID()) })
}

// attachToNetwork attaches a server or a load balancer to a network.
func (c *call) attachToNetwork(name string) (object, error) {
	x, n, err := c.pair(name)
	switch {
	case err != nil:
	case tree.Has(x.Object, "private_net[].network", n.ID()):
		err = unprocessable(resources[name].singular+"_already_attached", "%s is already attached to the network", resources[name].singular)
	default:
		_, err = c.freeAddress(tree.Sub(x.Object, "location"), n, tree.Text(c.body, "ip"))
	}
	if err != nil {
		return nil, err
	}
	return object{"action": c.start("attach_to_network", c.o.Latency, func(ctx context.Context) error {
		if err := c.join(x, n, c.body); err != nil || name != "servers" {
			return err
		}
		return c.plug(ctx, x)
	}, x, n)}, nil
}

// detachFromNetwork detaches a server or a load balancer from a network.
func (c *call) detachFromNetwork(name string) (object, error) {
	x, n, err := c.pair(name)
	if err == nil && !tree.Has(x.Object, "private_net[].network", n.ID()) {
		err = invalid("network", "%s is not attached to the network", resources[name].singular)
	}
	if err != nil {
		return nil, err
	}
	return object{"action": c.start("detach_from_network", c.o.Latency, func(ctx context.Context) error {
		if c.leave(x, n); name != "servers" {
			return nil
		}
		return c.plug(ctx, x)
	}, x, n)}, nil
}

// pair returns the object of a call and the network in its request, neither of which is locked.
func (c *call) pair(name string) (x, n *standin.Entry, err error) {
	if x, err = c.free(name); err != nil {
		return nil, nil, err
	}
	if err := c.store.Check(c.body, standin.Ref{Field: "network", Kind: "networks"}); err != nil {
		return nil, nil, err
	}
	if n = c.store.Get("networks", c.body["network"]); n.Busy > 0 {
		return nil, nil, locked(n)
	}
	return x, n, nil
}

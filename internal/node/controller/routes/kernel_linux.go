package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
)

// protocol marks our routes in the kernel's table, so that others are never
// touched. Routing daemons may use numbers from 4 up (rtnetlink(7)); iproute2 has
// no name for this one.
const protocol = 107

// System returns the main routing table of the process' network namespace.
func System() Kernel { return system{} }

type system struct{}

// Routes lists the routes that have our protocol number.
func (system) Routes() ([]Route, error) {
	var out []Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
		if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EOPNOTSUPP) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range list {
			if route, ok := fromKernel(r); ok {
				out = append(out, route)
			}
		}
	}
	return out, nil
}

func fromKernel(r netlink.Route) (Route, bool) {
	if r.Dst == nil {
		return Route{}, false
	}
	pods, ok := netip.AddrFromSlice(r.Dst.IP)
	via, hasVia := netip.AddrFromSlice(r.Gw)
	ones, bits := r.Dst.Mask.Size()
	if !ok || bits == 0 || hasVia == (r.Type == syscall.RTN_UNREACHABLE) {
		return Route{}, false
	}
	return Route{netip.PrefixFrom(pods.Unmap(), ones), via.Unmap()}, true
}

// lastMetric is the metric of unreachable routes: a route that the machine's owner sets
// for the same range takes precedence.
const lastMetric = 1<<31 - 1

func toKernel(r Route) *netlink.Route {
	out := &netlink.Route{
		Dst:      &net.IPNet{IP: r.Pods.Addr().AsSlice(), Mask: net.CIDRMask(r.Pods.Bits(), r.Pods.Addr().BitLen())},
		Gw:       r.Via.AsSlice(),
		Protocol: protocol,
	}
	if !r.Via.IsValid() {
		out.Type, out.Priority = syscall.RTN_UNREACHABLE, lastMetric
	}
	return out
}

// Set creates or changes a route.
func (system) Set(r Route) error {
	if err := netlink.RouteReplace(toKernel(r)); err != nil {
		return fmt.Errorf("set the route to %s via %s: %w", r.Pods, r.Via, err)
	}
	return nil
}

// Remove removes a route.
func (system) Remove(r Route) error {
	if err := netlink.RouteDel(toKernel(r)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("remove the route to %s: %w", r.Pods, err)
	}
	return nil
}

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// refusal marks the routes of Refuse in the kernel's table. Numbers from 4 up are free to
// routing daemons (rtnetlink(7)).
const refusal = 107

// Refuse makes the ranges to which this host refuses packets be those given, on behalf of a
// network. A route that leads somewhere, to all of a range or to a part of it, goes first. A
// range inside a wider one that the host has a route to is left to that route, and returned.
func Refuse(network netip.Prefix, ranges []string) ([]Conflict, error) {
	have, conflicts, err := refused(network, ranges)
	if err != nil {
		return nil, err
	}
	want := slices.DeleteFunc(slices.Clone(ranges), func(r string) bool {
		return slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Range.String() == r })
	})
	for _, r := range have {
		if slices.Contains(want, r) {
			continue
		}
		route, err := unreachable(network, r)
		if err == nil {
			err = netlink.RouteDel(route)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("no longer refuse packets to %s: %w", r, err)
		}
	}
	for _, r := range want {
		if slices.Contains(have, r) {
			continue
		}
		route, err := unreachable(network, r)
		if err == nil {
			err = netlink.RouteReplace(route)
		}
		if err != nil {
			return nil, fmt.Errorf("refuse packets to %s: %w", r, err)
		}
	}
	return conflicts, nil
}

// Refused returns the ranges, of those given, for which Refuse has nothing to do, and all
// others to which packets are refused.
func Refused(network netip.Prefix, ranges []string) ([]string, error) {
	have, conflicts, err := refused(network, ranges)
	if err != nil {
		return nil, err
	}
	left := func(r string) bool {
		return slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Range.String() == r })
	}
	var out []string
	for _, r := range ranges {
		if slices.Contains(have, r) != left(r) {
			out = append(out, r)
		}
	}
	for _, r := range have {
		if !slices.Contains(ranges, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// refused returns the ranges that are refused on behalf of a network, and those of the ones
// given that lie inside a wider range to which the host has a route.
func refused(network netip.Prefix, ranges []string) (have []string, conflicts []Conflict, err error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, nil, fmt.Errorf("list the routes of the host: %w", err)
	}
	for _, route := range routes {
		to, err := netip.ParsePrefix(route.Dst.String())
		switch {
		case err != nil: // the default route
		case route.Protocol == refusal:
			if route.Priority == metric(network) {
				have = append(have, to.String())
			}
		case to.Bits() >= widest:
			for _, text := range ranges {
				if r, err := netip.ParsePrefix(text); err == nil && to.Bits() < r.Bits() && to.Contains(r.Addr()) {
					conflicts = append(conflicts, Conflict{r, to})
				}
			}
		}
	}
	return have, conflicts, nil
}

// metric is a network's address as a number. Networks of one host do not overlap, so that
// each has routes of its own, even to a range that several refuse.
func metric(network netip.Prefix) int {
	a := network.Addr().As4()
	return int(binary.BigEndian.Uint32(a[:]))
}

func unreachable(network netip.Prefix, to string) (*netlink.Route, error) {
	_, dst, err := net.ParseCIDR(to)
	return &netlink.Route{Dst: dst, Type: syscall.RTN_UNREACHABLE, Protocol: refusal, Priority: metric(network)}, err
}

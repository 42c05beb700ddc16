// Package network sets up a cluster's bridge on this host, its address, the routes through it, and
// what the host's firewall lets its machines reach: the world, or only each other.
//
// It must not know of clusters or machines. It works on Linux only.
package network

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// Gateway returns the host's address in a network: the first one after the network address.
func Gateway(cidr netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(cidr.Masked().Addr().Next(), cidr.Bits())
}

// firstMachine is the number of the first address for machines; lower ones are the host's.
const firstMachine = 10

// FreeAddress returns the lowest address of the network that is for machines and not taken.
func FreeAddress(cidr netip.Prefix, taken func(netip.Addr) bool) (netip.Prefix, error) {
	a := cidr.Masked().Addr()
	for range firstMachine {
		a = a.Next()
	}
	for ; cidr.Contains(a); a = a.Next() {
		last := !cidr.Contains(a.Next()) // the broadcast address
		if !last && !taken(a) {
			return netip.PrefixFrom(a, cidr.Bits()), nil
		}
	}
	return netip.Prefix{}, fault.Wrap(fault.Quota, fmt.Errorf("the network %s has no free address", cidr), "make the cluster's network larger")
}

// Check parses a range and checks that it can be a cluster's network.
func Check(cidr string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() || p.Bits() < 16 || p.Bits() > 28 || p != p.Masked() {
		return p, fmt.Errorf("%q cannot be a network of the local cloud: it must be an IPv4 range such as 10.77.0.0/24, of 16 to 28 bits", cidr)
	}
	return p, nil
}

// Overlap returns the name of an interface of this host, other than but, that has an
// address in the range, or "".
func Overlap(cidr netip.Prefix, but string) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if i.Name == but {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it was removed meanwhile
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(cidr) {
				return i.Name, nil
			}
		}
	}
	return "", nil
}

// HasOtherBridges reports whether the host has a bridge whose name does not have the prefix, such as
// docker's or libvirt's, which need the host to forward packets.
func HasOtherBridges(prefix string) bool {
	found, err := filepath.Glob("/sys/class/net/*/bridge")
	return err == nil && slices.ContainsFunc(found, func(f string) bool {
		return !strings.HasPrefix(filepath.Base(filepath.Dir(f)), prefix)
	})
}

// Conflict is a range of a cluster inside a wider one to which the host's user has a route.
type Conflict struct{ Range, Route netip.Prefix }

// Package network makes the bridge of a cluster on this host, its address, the
// routes through it, and, where machines are to reach the world, what lets the
// host pass their packets on.
//
// It must not know of clusters or machines. It works on Linux only.
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"

	"kops.local/kops/internal/fault"
)

// Gateway is the host's address in a network: the first after its own.
func Gateway(cidr netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(cidr.Masked().Addr().Next(), cidr.Bits())
}

// firstMachine is the number of the first address that machines get; those
// before it are the host's.
const firstMachine = 10

// Free returns the lowest address of the network that machines may have and that is not taken.
func Free(cidr netip.Prefix, taken func(netip.Addr) bool) (netip.Prefix, error) {
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

// Check reports whether the range can be a cluster's network.
func Check(cidr string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() || p.Bits() < 16 || p.Bits() > 28 || p != p.Masked() {
		return p, fmt.Errorf("%q cannot be a network of the local cloud: it must be an IPv4 range such as 10.77.0.0/24, of 16 to 28 bits", cidr)
	}
	return p, nil
}

// Overlap returns the name of another interface of this host that has an
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
			continue // it went meanwhile
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(cidr) {
				return i.Name, nil
			}
		}
	}
	return "", nil
}

// rule is one rule of the host's firewall.
type rule struct {
	table string
	chain string
	args  []string
	first bool
}

// rules let machines reach the world and the host's address in their network,
// and each other on hosts whose firewall sees what passes a bridge. Each carries
// the bridge's name as its mark.
func rules(bridge string, cidr netip.Prefix) []rule {
	mark := []string{"-m", "comment", "--comment", bridge, "-j"}
	r := func(table, chain string, first bool, target string, args ...string) rule {
		return rule{table, chain, append(append(args, mark...), target), first}
	}
	return []rule{
		r("filter", "FORWARD", true, "ACCEPT", "-i", bridge),
		r("filter", "FORWARD", true, "ACCEPT", "-o", bridge),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-d", Gateway(cidr).Addr().String()),
		r("nat", "POSTROUTING", false, "MASQUERADE", "-s", cidr.String(), "!", "-o", bridge),
	}
}

// Masquerades reports whether the rules of Masquerade are there.
func Masquerades(bridge string, cidr netip.Prefix) bool {
	for _, r := range rules(bridge, cidr) {
		if iptables(r, "-C") != nil {
			return false
		}
	}
	return true
}

// Masquerade makes the host pass the packets of a network on under its own
// address, or no longer. It needs the program iptables only to begin.
func Masquerade(bridge string, cidr netip.Prefix, on bool) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		if !on {
			return nil
		}
		return fault.Wrap(fault.Permanent, errors.New("machines cannot reach the world without the program iptables"), "run: apt-get install -y iptables")
	}
	for _, r := range rules(bridge, cidr) {
		has := iptables(r, "-C") == nil
		switch {
		case on && !has && r.first:
			if err := iptables(r, "-I"); err != nil {
				return err
			}
		case on && !has:
			if err := iptables(r, "-A"); err != nil {
				return err
			}
		case !on && has:
			if err := iptables(r, "-D"); err != nil {
				return err
			}
		}
	}
	return nil
}

func iptables(r rule, action string) error {
	args := append([]string{"-w", "-t", r.table, action, r.chain}, r.args...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// Bridge is an interface of this host that connects a cluster's machines.
type Bridge struct {
	Name    string
	Address netip.Prefix
	// Routes are ranges that lie behind machines, each with the machine's address.
	Routes map[string]string
}

// Find returns a bridge, and reports whether it exists and has an address.
func Find(name string) (Bridge, bool, error) {
	l, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return Bridge{}, false, nil
	}
	if err != nil {
		return Bridge{}, false, fmt.Errorf("find the interface %s: %w", name, err)
	}
	b := Bridge{Name: name, Routes: map[string]string{}}
	addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		return b, false, fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	for _, a := range addrs {
		b.Address, err = netip.ParsePrefix(a.IPNet.String())
		if err != nil {
			return b, false, err
		}
	}
	routes, err := netlink.RouteList(l, netlink.FAMILY_V4)
	if err != nil {
		return b, false, fmt.Errorf("list the routes of %s: %w", name, err)
	}
	for _, r := range routes {
		if r.Gw != nil && r.Dst != nil {
			b.Routes[r.Dst.String()] = r.Gw.String()
		}
	}
	return b, len(addrs) > 0, nil
}

// Ensure creates the bridge with its address. A partly created one is completed.
func Ensure(name string, address netip.Prefix) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, hardwareAddr(address.Addr())
	l, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err == nil {
			l, err = netlink.LinkByName(name)
		}
	}
	if err != nil {
		return fmt.Errorf("create the bridge %s: %w", name, err)
	}
	if !bytes.Equal(l.Attrs().HardwareAddr, attrs.HardwareAddr) {
		if err := netlink.LinkSetHardwareAddr(l, attrs.HardwareAddr); err != nil {
			return fmt.Errorf("give the bridge %s the hardware address %s: %w", name, attrs.HardwareAddr, err)
		}
	}
	a, err := netlink.ParseAddr(address.String())
	if err == nil {
		err = netlink.AddrReplace(l, a)
	}
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("give the bridge %s the address %s: %w", name, address, err)
	}
	return nil
}

// Label records a text with an interface, as its alias.
func Label(name, text string) error {
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetAlias(l, text)
	}
	if err != nil {
		return fmt.Errorf("label the interface %s: %w", name, err)
	}
	return nil
}

// LabelOf returns the text that Label has recorded with an interface.
func LabelOf(name string) (string, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return "", fmt.Errorf("find the interface %s: %w", name, err)
	}
	return l.Attrs().Alias, nil
}

// SetAddresses sets an interface's addresses to those given, each with its network's prefix length.
func SetAddresses(name string, want []netip.Prefix) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", name, err)
	}
	have, err := netlink.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	for _, a := range have {
		if p, err := netip.ParsePrefix(a.IPNet.String()); err == nil && slices.Contains(want, p) {
			continue
		}
		if err := netlink.AddrDel(l, &a); err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) { // it was removed with the first address of its network
			return fmt.Errorf("remove the address %s from %s: %w", a.IPNet, name, err)
		}
	}
	for _, p := range want {
		a, err := netlink.ParseAddr(p.String())
		if err == nil {
			err = netlink.AddrReplace(l, a)
		}
		if err != nil {
			return fmt.Errorf("give %s the address %s: %w", name, p, err)
		}
	}
	return nil
}

// hardwareAddr returns a bridge's hardware address. A bridge without one of its own takes a machine's,
// which changes as machines are added and removed, and the remaining machines would send to the old
// one.
func hardwareAddr(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return append(net.HardwareAddr{0x02, 0x00}, b[:]...) // 02: locally administered
}

// Route sets the routes through the bridge to those given.
func Route(name string, want map[string]string) error {
	have, ok, err := Find(name)
	if err == nil && !ok {
		err = errors.New("it does not exist")
	}
	if err != nil {
		return fmt.Errorf("set the routes through %s: %w", name, err)
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for to, via := range want {
		r, err := newRoute(l, to, via)
		if err == nil {
			err = netlink.RouteReplace(r)
		}
		if err != nil {
			return fmt.Errorf("route %s through %s: %w", to, via, err)
		}
	}
	for to, via := range have.Routes {
		if _, wanted := want[to]; wanted {
			continue
		}
		r, err := newRoute(l, to, via)
		if err == nil {
			err = netlink.RouteDel(r)
		}
		if err != nil {
			return fmt.Errorf("remove the route to %s: %w", to, err)
		}
	}
	return nil
}

func newRoute(l netlink.Link, to, via string) (*netlink.Route, error) {
	_, dst, err := net.ParseCIDR(to)
	if err != nil {
		return nil, err
	}
	gw := net.ParseIP(via)
	if gw == nil {
		return nil, fmt.Errorf("%q is not an address", via)
	}
	return &netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Gw: gw}, nil
}

// maxRange is the shortest prefix length that counts as a network: VPNs that take all
// of a host's packets use wider ranges, such as 0.0.0.0/1.
const maxRange = 8

// RoutedNetworks lists the networks to which the host has routes, in all of its tables.
func RoutedNetworks() ([]netip.Prefix, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: syscall.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list the routes of the host: %w", err)
	}
	var out []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst.String()); err == nil && p.Bits() >= maxRange {
			out = append(out, p)
		}
	}
	return out, nil
}

// Remove removes a bridge with its routes, or another interface. It is not an error if it does
// not exist.
func Remove(name string) error {
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(l)
	}
	var none netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &none) && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("remove the interface %s: %w", name, err)
	}
	return nil
}

// Package senders defines whom the limits of a server count as one sender.
//
// It must not know what is limited.
package senders

import "net/netip"

// Network returns the network that a remote address, host:port, stands for: with IPv6 a range of
// 80 bits, which an AWS machine has for its pods.
func Network(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // not the address of a connection; all such count as one
	}
	a, bits := at.Addr().Unmap().WithZone(""), 32
	if a.Is6() {
		bits = 80
	}
	return netip.PrefixFrom(a, bits).Masked()
}

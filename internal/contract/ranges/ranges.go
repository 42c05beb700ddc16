// Package ranges counts in ranges of addresses.
//
// It must not know whose addresses they are.
package ranges

import "net/netip"

// Last returns the last address of an IPv4 range.
func Last(r netip.Prefix) netip.Addr {
	b := r.Masked().Addr().As4()
	for i := r.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

package complete

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// split cuts an IPv4 range into 2^bits equal parts, in order.
func split(whole netip.Prefix, bits int) ([]netip.Prefix, error) {
	if !whole.Addr().Is4() {
		return nil, fmt.Errorf("%s is not an IPv4 range", whole)
	}
	length := whole.Bits() + bits
	if length > 32 {
		return nil, fmt.Errorf("%s is too small to be split into %d parts", whole, 1<<bits)
	}
	parts := make([]netip.Prefix, 1<<bits)
	first := binary.BigEndian.Uint32(whole.Masked().Addr().AsSlice())
	for i := range parts {
		parts[i] = netip.PrefixFrom(ipv4(first+uint32(i)<<(32-length)), length)
	}
	return parts, nil
}

// Allocate returns the first range of the given length within from that does not overlap any of
// used. The very first range is never allocated: 10.0.0.0/20 of 10.0.0.0/8 is what other tools and
// people use by default.
func Allocate(from netip.Prefix, length int, used []netip.Prefix) (netip.Prefix, error) {
	first := binary.BigEndian.Uint32(from.Masked().Addr().AsSlice())
	for i := uint64(1); i < 1<<(length-from.Bits()); i++ {
		p := netip.PrefixFrom(ipv4(first+uint32(i<<(32-length))), length)
		if !overlapsAny(p, used) {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no free /%d is left in %s", length, from)
}

func ipv4(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, p.Overlaps)
}

// nth returns the n-th address of a range; the 0-th is the network's own.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// podRange returns the upper half of the range that is not masqueraded: 100.96.0.0/11 of
// 100.64.0.0/10.
func podRange(nonMasquerade netip.Prefix) (netip.Prefix, error) {
	halves, err := split(nonMasquerade, 1)
	if err != nil {
		return netip.Prefix{}, err
	}
	return halves[1], nil
}

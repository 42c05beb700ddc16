package kinds

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// IPv6Part returns the index-th subnet of a VPC's range with a prefix that is longer by bits, as the
// expression that Terraform evaluates; creating a subnet evaluates it, too. The prefix of a VPC's
// range has 56 bits, so a subnet's needs 8 more.
func IPv6Part(vpcRange resource.Value, bits, index int) resource.Value {
	return resource.Concat(resource.Lit("cidrsubnet("), vpcRange, resource.Lit(fmt.Sprintf(", %d, %d)", bits, index)))
}

// ipv6RangeOf returns the IPv6 range of a new subnet, or "".
func ipv6RangeOf(s *Subnet) (string, error) {
	if s.IPv6Part.IsZero() {
		return s.IPv6CIDR, nil
	}
	var within string
	var bits, index int
	if _, err := fmt.Sscanf(s.IPv6Part.Text(), "cidrsubnet(%s %d, %d)", &within, &bits, &index); err != nil {
		return "", fmt.Errorf("read %q: %w", s.IPv6Part.Text(), err)
	}
	whole, err := netip.ParsePrefix(within[:len(within)-1]) // without the comma
	if err != nil {
		return "", fault.New(fault.Permanent, "the VPC has no IPv6 range to take %q from", s.IPv6Part.Text())
	}
	part, err := cidrSubnet(whole, bits, index)
	return part.String(), err
}

// canonicalRange returns a range as AWS writes it, however a user wrote
// it; other text is unchanged.
func canonicalRange(text string) string {
	if r, err := netip.ParsePrefix(text); err == nil {
		return r.Masked().String()
	}
	return text
}

func canonicalRanges(texts []string) []string {
	out := slices.Clone(texts)
	for i, text := range out {
		out[i] = canonicalRange(text)
	}
	return out
}

// cidrSubnet implements Terraform's cidrsubnet function.
func cidrSubnet(whole netip.Prefix, bits, index int) (netip.Prefix, error) {
	long := whole.Addr().BitLen()
	length := whole.Bits() + bits
	if bits < 0 || index < 0 || length > long || bits < 31 && index >= 1<<bits {
		return netip.Prefix{}, fmt.Errorf("%s has no subnet number %d with %d more bits", whole, index, bits)
	}
	base := new(big.Int).SetBytes(whole.Masked().Addr().AsSlice())
	base.Or(base, new(big.Int).Lsh(big.NewInt(int64(index)), uint(long-length)))
	addr, _ := netip.AddrFromSlice(base.FillBytes(make([]byte, long/8))) // the length is always valid
	return netip.PrefixFrom(addr, length), nil
}

package complete

import (
	"net/netip"
)

// bucketRegion returns the region of a bucket, or the cluster's region if it was not looked up.
func (p *Pass) bucketRegion(bucket string) string {
	if r := p.Facts.Buckets[bucket]; r != "" {
		return r
	}
	if p.Facts.Region != "" {
		return p.Facts.Region
	}
	for _, s := range p.Spec.Networking.Subnets {
		if r := p.platform.Network.Region(s.Zone); r != "" {
			return r
		}
	}
	return ""
}

// Ranges appends the texts that are valid ranges.
func Ranges(to []netip.Prefix, texts ...string) []netip.Prefix {
	for _, t := range texts {
		if r, err := netip.ParsePrefix(t); err == nil {
			to = append(to, r)
		}
	}
	return to
}

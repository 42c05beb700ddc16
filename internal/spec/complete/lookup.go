package complete

import (
	"net/netip"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/facts"
)

// hostedZones are the DNS zones of the cluster's cloud.
func (p *pass) hostedZones() []facts.DNSZone {
	switch f := p.in.Facts; {
	case p.cloud == api.CloudAWS && f.AWS != nil:
		return f.AWS.DNSZones
	case p.cloud == api.CloudGCE && f.GCE != nil:
		return f.GCE.DNSZones
	}
	return nil
}

// bucketRegion is the region of an S3 bucket: that of the cluster when it was not looked up.
func (p *pass) bucketRegion(bucket string) string {
	if f := p.in.Facts.AWS; f != nil {
		if r := f.Buckets[bucket]; r != "" {
			return r
		}
		if f.Region != "" {
			return f.Region
		}
	}
	return p.zonesRegion()
}

// zonesRegion is the region of an AWS cluster, read from its zones, or "".
func (p *pass) zonesRegion() string {
	for _, n := range p.spec.Networking.Subnets {
		if len(n.Zone) > 1 {
			return n.Zone[:len(n.Zone)-1]
		}
	}
	return ""
}

// vpc is the shared VPC.
func (p *pass) vpc() (facts.AWSVPC, bool) {
	if p.in.Facts.AWS == nil {
		return facts.AWSVPC{}, false
	}
	v, ok := p.in.Facts.AWS.VPCs[p.spec.Networking.NetworkID]
	return v, ok
}

// awsSubnet is a shared subnet.
func (p *pass) awsSubnet(id string) (facts.AWSSubnet, bool) {
	if p.in.Facts.AWS == nil {
		return facts.AWSSubnet{}, false
	}
	s, ok := p.in.Facts.AWS.Subnets[id]
	return s, ok
}

// usedInNetwork are the ranges that a GCE network already uses.
func (p *pass) usedInNetwork() []netip.Prefix {
	var used []netip.Prefix
	if p.in.Facts.GCE != nil {
		used = appendRanges(used, p.in.Facts.GCE.Networks[p.gceNetwork()]...)
	}
	for _, s := range p.spec.Networking.Subnets {
		used = appendRanges(used, s.CIDR)
	}
	return used
}

// appendRanges appends the texts that are ranges.
func appendRanges(to []netip.Prefix, texts ...string) []netip.Prefix {
	for _, t := range texts {
		if r, err := netip.ParsePrefix(t); err == nil {
			to = append(to, r)
		}
	}
	return to
}

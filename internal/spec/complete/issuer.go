package complete

import (
	"cmp"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/spec/fill"
)

// setIssuer sets the issuer of service account tokens: the location of the public keys, if they are
// published, otherwise the API server's name.
func setIssuer(p *Pass) {
	c := p.Spec.KubeAPIServer
	if c.ServiceAccountIssuer == nil {
		issuer := cmp.Or(p.input.Issuer, p.issuer())
		if issuer == "" {
			return
		}
		c.ServiceAccountIssuer = &issuer
	}
	fill.Ptr(&c.ServiceAccountJWKSURI, strings.TrimSuffix(*c.ServiceAccountIssuer, "/")+"/openid/v1/jwks")
}

func (p *Pass) issuer() string {
	if d := p.Spec.ServiceAccountIssuerDiscovery; d != nil {
		if d.DiscoveryStore != "" {
			return p.storeURL(d.DiscoveryStore)
		}
		if d.DiscoveryService != nil && d.DiscoveryService.URL != "" {
			return strings.TrimSuffix(d.DiscoveryService.URL, "/")
		}
	}
	access := p.Spec.API.Access
	open := slices.Contains(access, "0.0.0.0/0") || slices.Contains(access, "::/0")
	if isTrue(p.Spec.KubeAPIServer.AnonymousAuth) && open && p.Spec.API.PublicName != "" {
		return "https://" + p.Spec.API.PublicName
	}
	return "https://" + hostnames.API(p.Cluster.Name)
}

// storeURL returns the public URL of a store's objects, or "" with a finding if there is none.
func (p *Pass) storeURL(store string) string {
	_, place, _ := strings.Cut(store, "://")
	bucket, _, _ := strings.Cut(place, "/")
	url, ok := layout.PublicURL(store, layout.Servers{Region: p.bucketRegion(bucket), IPv6: p.IPv6(), Endpoint: p.input.Endpoint})
	if !ok {
		p.Fail("spec.serviceAccountIssuerDiscovery.discoveryStore", store, "service-account-issuer", "is not a store that can be read without credentials", layout.Public)
	}
	return url
}

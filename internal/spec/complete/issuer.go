package complete

import (
	"slices"
	"strings"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/spec/fill"
)

// setIssuer says who signs service account tokens: the place of the public keys,
// when they are published, else the API server's name.
func setIssuer(p *Pass) {
	c := p.Spec.KubeAPIServer
	if c.ServiceAccountIssuer == nil {
		issuer := p.issuer()
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

// storeURL is where the objects of a store are read without credentials, or ""
// with a finding when the store has no such place.
func (p *Pass) storeURL(store string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSuffix(store, "/"), "://")
	bucket, key, _ := strings.Cut(rest, "/")
	switch scheme {
	case "s3":
		region := p.bucketRegion(bucket)
		host := ".s3." + region + ".amazonaws.com/"
		if p.IPv6() {
			host = ".s3.dualstack." + region + ".amazonaws.com/"
		}
		return "https://" + bucket + host + key
	case "gs":
		return "https://storage.googleapis.com/" + rest
	case "memfs":
		return "https://" + rest
	default:
		p.Fail("spec.serviceAccountIssuerDiscovery.discoveryStore", store, "service-account-issuer",
			"is not a store that can be read without credentials", "use a bucket of S3 (s3://…) or of Google Cloud Storage (gs://…)")
		return ""
	}
}

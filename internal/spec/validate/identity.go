package validate

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// OwnRoles reports whether service accounts have roles of their own.
func (c *Check) OwnRoles() bool {
	return c.Spec.IAM != nil && IsTrue(c.Spec.IAM.UseServiceAccountExternalPermissions)
}

func serviceAccountPermissions(c *Check) {
	if c.Spec.IAM == nil {
		return
	}
	var pairs []string
	const list = "spec.iam.serviceAccountExternalPermissions"
	for i, p := range c.Spec.IAM.ServiceAccountExternalPermissions {
		path := At(list, i)
		pairs = append(pairs, p.Namespace+"/"+p.Name)
		c.Need(p.Namespace != "", path+".namespace", "specify the namespace of the service account")
		c.Need(p.Name != "", path+".name", "specify the name of the service account")
		if p.Namespace == "kube-system" && c.hasOwnRole(p.Name, path+".name") {
			c.Bad(path+".name", p.Name, "is the service account of a component of kops, which already has a role", "remove it, and use another service account for other workloads")
		}
	}
	c.Unique(list, pairs)
}

// hasOwnRole reports whether a service account belongs to an add-on of the cluster that has a role
// on the platform.
func (c *Check) hasOwnRole(account, path string) bool {
	if c.platform.Model.MountRole == nil || !c.OwnRoles() {
		return false
	}
	on, err := c.input.Addons.ActsAs(c.view(), account)
	c.broken(path, err)
	return on
}

func issuerDiscovery(c *Check) {
	const path = "spec.serviceAccountIssuerDiscovery"
	d := c.Spec.ServiceAccountIssuerDiscovery
	if d == nil {
		return
	}
	if d.DiscoveryStore != "" && d.DiscoveryService != nil {
		c.Bad(path+".discoveryService", "", "cannot be combined with discoveryStore", "remove one of them")
	}
	if d.DiscoveryService != nil {
		c.Bad(path+".discoveryService", d.DiscoveryService.URL, "is not supported: kops does not register the service account keys there, so tokens would not be trusted", "use discoveryStore")
	}
	if d.DiscoveryStore == "" {
		return
	}
	scheme, rest, _ := strings.Cut(d.DiscoveryStore, "://")
	bucket, _, _ := strings.Cut(rest, "/")
	switch _, public := layout.PublicURL(d.DiscoveryStore, layout.Servers{Endpoint: c.input.Endpoint}); {
	case !public:
		c.Bad(path+".discoveryStore", d.DiscoveryStore, "is not a store that can be read without credentials", layout.Public)
	case scheme == "s3" && c.input.Endpoint != "":
		if strings.HasPrefix(c.input.Endpoint, "http://") {
			c.Warn(path+".discoveryStore", d.DiscoveryStore, "is at "+c.input.Endpoint+", but clients that verify tokens require TLS", "serve the bucket over HTTPS at the same host, or use another bucket")
		}
	case scheme == "s3" && strings.Contains(bucket, "."):
		c.Bad(path+".discoveryStore", d.DiscoveryStore, "is in a bucket whose name contains a dot, which the TLS certificate of S3 does not cover", "use a bucket without dots in its name")
	}
}

func awsAuthentication(c *Check) {
	if c.Spec.Authentication == nil || c.Spec.Authentication.AWS == nil {
		return
	}
	const path = "spec.authentication.aws"
	a := c.Spec.Authentication.AWS
	if len(a.IdentityMappings) > 0 && !strings.Contains(a.BackendMode, "CRD") {
		c.Bad(path+".backendMode", a.BackendMode, "does not read identityMappings", "set it to CRD")
	}
	for i, m := range a.IdentityMappings {
		fields := strings.SplitN(m.ARN, ":", 6)
		if len(fields) != 6 || !strings.HasPrefix(fields[5], "role/") && !strings.HasPrefix(fields[5], "user/") {
			c.Bad(At(path+".identityMappings", i)+".arn", m.ARN, "is not the ARN of a role or a user", "write one such as arn:aws:iam::123456789012:role/name")
		}
	}
}

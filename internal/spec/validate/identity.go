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
	return c.Spec.IAM != nil && isTrue(c.Spec.IAM.UseServiceAccountExternalPermissions)
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
		c.Need(p.Namespace != "", path+".namespace", "name the namespace of the service account")
		c.Need(p.Name != "", path+".name", "name the service account")
		if p.Namespace == "kube-system" && c.hasOwnRole(p.Name, path+".name") {
			c.Bad(path+".name", p.Name, "is the service account of a component in kube-system, which has a role of the cluster's own", "remove it, and run what else needs permissions under another service account")
		}
	}
	c.Unique(list, pairs)
}

// hasOwnRole reports whether a service account belongs to an add-on of the cluster,
// to which the platform gives a role.
func (c *Check) hasOwnRole(account, path string) bool {
	if c.on.Model.MountRole == nil || !c.OwnRoles() {
		return false
	}
	on, err := c.in.Addons.ActsAs(c.view(), account)
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
		c.Bad(path+".discoveryService", "", "cannot stand together with discoveryStore", "leave one of them")
	}
	if d.DiscoveryService != nil {
		c.Bad(path+".discoveryService", d.DiscoveryService.URL, "is not supported: kops does not register the service account keys there, so tokens would not be trusted", "use discoveryStore")
	}
	if d.DiscoveryStore == "" {
		return
	}
	scheme, rest, _ := strings.Cut(d.DiscoveryStore, "://")
	bucket, _, _ := strings.Cut(rest, "/")
	switch _, public := layout.PublicURL(d.DiscoveryStore, layout.Servers{Endpoint: c.in.Endpoint}); {
	case !public:
		c.Bad(path+".discoveryStore", d.DiscoveryStore, "is not a store that can be read without credentials", layout.Public)
	case scheme == "s3" && c.in.Endpoint != "":
		if strings.HasPrefix(c.in.Endpoint, "http://") {
			c.Warn(path+".discoveryStore", d.DiscoveryStore, "is at "+c.in.Endpoint+", but clients that verify tokens read only over TLS", "serve the bucket at the same host by HTTPS, or use another")
		}
	case scheme == "s3" && strings.Contains(bucket, "."):
		c.Bad(path+".discoveryStore", d.DiscoveryStore, "is in a bucket with a dot in its name, for which S3 has no certificate", "use a bucket without dots")
	}
}

// kopeioAuthentication refuses a webhook whose programs need an etcd of version 2.
func kopeioAuthentication(c *Check) {
	if a := c.Spec.Authentication; a != nil && a.Kopeio != nil {
		c.Bad("spec.authentication.kopeio", "", "is not supported: its programs no longer run, and the API server would wait for them", "remove it; use spec.authentication.oidc or aws")
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

package validate

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// permissions reports whether service accounts have roles of their own.
func (c *check) permissions() bool {
	return c.spec.IAM != nil && isTrue(c.spec.IAM.UseServiceAccountExternalPermissions)
}

func serviceAccountPermissions(c *check) {
	if c.spec.IAM == nil {
		return
	}
	var pairs []string
	own := c.componentAccounts()
	const list = "spec.iam.serviceAccountExternalPermissions"
	for i, p := range c.spec.IAM.ServiceAccountExternalPermissions {
		path := at(list, i)
		pairs = append(pairs, p.Namespace+"/"+p.Name)
		c.need(p.Namespace != "", path+".namespace", "name the namespace of the service account")
		c.need(p.Name != "", path+".name", "name the service account")
		if p.Namespace == "kube-system" && own[p.Name] {
			c.bad(path+".name", p.Name, "is the service account of a component in kube-system, which has a role of the cluster's own", "remove it, and run what else needs permissions under another service account")
		}
		switch {
		case p.AWS == nil:
			c.required(path+".aws", "say which permissions it gets")
		case (len(p.AWS.PolicyARNs) > 0) == (p.AWS.InlinePolicy != ""):
			c.bad(path+".aws", "", "must have policyARNs or inlinePolicy, and not both", "leave one of them")
		}
	}
	c.unique(list, pairs)
}

// componentAccounts are the service accounts in kube-system to which the model of AWS
// gives roles, because the components that run as them are there.
func (c *check) componentAccounts() map[string]bool {
	aws := c.spec.CloudProvider.AWS
	if aws == nil || !c.permissions() {
		return nil
	}
	s := c.spec
	published := complete.DNS(s) != api.DNSNone
	provider := api.ExternalDNSProviderDNSController
	if s.ExternalDNS != nil && s.ExternalDNS.Provider != "" {
		provider = s.ExternalDNS.Provider
	}
	handler, balancer := aws.NodeTerminationHandler, aws.LoadBalancerController
	return map[string]bool{
		"aws-cloud-controller-manager": true,
		"aws-load-balancer-controller": balancer != nil && isTrue(balancer.Enabled),
		"aws-node-termination-handler": handler != nil && !isFalse(handler.Enabled) && !isFalse(handler.EnableSQSTerminationDraining),
		"cert-manager":                 s.CertManager != nil && isTrue(s.CertManager.Enabled) && len(s.CertManager.HostedZoneIDs) > 0,
		"cluster-autoscaler":           s.ClusterAutoscaler != nil && isTrue(s.ClusterAutoscaler.Enabled),
		"dns-controller":               published && provider == api.ExternalDNSProviderDNSController,
		"ebs-csi-controller-sa":        true,
		"external-dns":                 published && provider == api.ExternalDNSProviderExternalDNS,
		"karpenter":                    s.Karpenter != nil && s.Karpenter.Enabled,
		"kube-router":                  s.Networking.KubeRouter != nil,
	}
}

// policyRoles are the roles that policies can be added to, as v1alpha2 calls them.
func policyRoles() []string {
	return []string{"master", "apiserver", "node", "bastion", "etcd", "scheduler", "kubecontrollermanager"}
}

// userRole is a role as v1alpha2 calls it.
func userRole(role string) string {
	if role == "control-plane" {
		return "master"
	}
	return role
}

// policyRole checks the role that has policies, and returns the path of these.
func (c *check) policyRole(list, role string) string {
	path := list + "[" + userRole(role) + "]"
	if role == "master" { // v1alpha2's name, read as control-plane unless that is there too
		c.bad(path, "", "is another name for control-plane, and one of them is read", "write all policies of the role under one of them")
		return path
	}
	c.oneOf(path, userRole(role), policyRoles()...)
	return path
}

func policies(c *check) {
	for _, role := range sortedKeys(c.spec.AdditionalPolicies) {
		path := c.policyRole("spec.additionalPolicies", role)
		policy(c, path, c.spec.AdditionalPolicies[role])
	}
	for _, role := range sortedKeys(c.spec.ExternalPolicies) {
		path := c.policyRole("spec.externalPolicies", role)
		for i, arn := range c.spec.ExternalPolicies[role] {
			if fields := strings.SplitN(arn, ":", 6); len(fields) != 6 || fields[0] != "arn" || !strings.HasPrefix(fields[5], "policy/") {
				c.bad(at(path, i), arn, "is not the ARN of a policy", "write one such as arn:aws:iam::123456789012:policy/name")
			}
		}
	}
}

// policy checks a list of IAM statements.
func policy(c *check, path, document string) {
	var statements []struct{ Effect string }
	if err := json.Unmarshal([]byte(document), &statements); err != nil {
		why := ""
		if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) {
			why = ": " + err.Error()
		}
		c.bad(path, "", "is not a JSON list of IAM statements"+why, `write [{"Effect": "Allow", "Action": […], "Resource": […]}]`)
		return
	}
	for i, s := range statements {
		if s.Effect != "Allow" && s.Effect != "Deny" {
			c.bad(at(path, i)+".Effect", s.Effect, "is neither Allow nor Deny", "write one of them")
		}
	}
}

func issuerDiscovery(c *check) {
	const path = "spec.serviceAccountIssuerDiscovery"
	d := c.spec.ServiceAccountIssuerDiscovery
	if d == nil {
		return
	}
	if d.DiscoveryStore != "" && d.DiscoveryService != nil {
		c.bad(path+".discoveryService", "", "cannot stand together with discoveryStore", "leave one of them")
	}
	if d.DiscoveryService != nil {
		c.bad(path+".discoveryService", d.DiscoveryService.URL, "is not supported: machines would not register the keys of tokens there, so that nobody trusts them", "use discoveryStore")
	}
	if d.EnableAWSOIDCProvider && d.DiscoveryStore == "" && d.DiscoveryService == nil {
		c.bad(path+".enableAWSOIDCProvider", "true", "AWS must be able to read the issuer's documents, which are published nowhere", "add a discoveryStore")
	}
	if d.DiscoveryStore == "" {
		return
	}
	scheme, rest, _ := strings.Cut(d.DiscoveryStore, "://")
	bucket, _, _ := strings.Cut(rest, "/")
	switch {
	case scheme != "s3" && scheme != "gs" && scheme != "memfs":
		c.bad(path+".discoveryStore", d.DiscoveryStore, "is not a store that can be read without credentials", "use a bucket of S3 (s3://…) or of Google Cloud Storage (gs://…)")
	case scheme == "s3" && strings.Contains(bucket, "."):
		c.bad(path+".discoveryStore", d.DiscoveryStore, "is in a bucket with a dot in its name, for which S3 has no certificate", "use a bucket without dots")
	}
}

// kopeioAuthentication refuses a webhook whose programs need an etcd of version 2.
func kopeioAuthentication(c *check) {
	if a := c.spec.Authentication; a != nil && a.Kopeio != nil {
		c.bad("spec.authentication.kopeio", "", "is not supported: its programs no longer run, and the API server would wait for them", "remove it; use spec.authentication.oidc or aws")
	}
}

func awsAuthentication(c *check) {
	if c.spec.Authentication == nil || c.spec.Authentication.AWS == nil {
		return
	}
	const path = "spec.authentication.aws"
	a := c.spec.Authentication.AWS
	if len(a.IdentityMappings) > 0 && !strings.Contains(a.BackendMode, "CRD") {
		c.bad(path+".backendMode", a.BackendMode, "does not read identityMappings", "set it to CRD")
	}
	for i, m := range a.IdentityMappings {
		fields := strings.SplitN(m.ARN, ":", 6)
		if len(fields) != 6 || !strings.HasPrefix(fields[5], "role/") && !strings.HasPrefix(fields[5], "user/") {
			c.bad(at(path+".identityMappings", i)+".arn", m.ARN, "is not the ARN of a role or a user", "write one such as arn:aws:iam::123456789012:role/name")
		}
	}
}

// title is a cloud's name as messages write it.
func title(cloud api.CloudProviderID) string {
	switch cloud {
	case "":
		return "no cloud"
	case api.CloudAWS, api.CloudGCE:
		return strings.ToUpper(string(cloud))
	case api.CloudDO:
		return "DigitalOcean"
	case api.CloudOpenstack:
		return "OpenStack"
	case api.CloudLocal:
		return "the local cloud"
	default:
		return strings.ToUpper(string(cloud[:1])) + string(cloud[1:])
	}
}

// onCloud reports whether the cluster is on one of the clouds.
func (c *check) onCloud(clouds ...api.CloudProviderID) bool { return slices.Contains(clouds, c.cloud) }

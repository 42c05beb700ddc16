package spec

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/validate"
)

// checkAccountPermissions checks the permissions of the user's service accounts.
func checkAccountPermissions(c *validate.Check) {
	if c.Spec.IAM == nil {
		return
	}
	for i, p := range c.Spec.IAM.ServiceAccountExternalPermissions {
		path := validate.At("spec.iam.serviceAccountExternalPermissions", i) + ".aws"
		switch {
		case p.AWS == nil:
			c.Required(path, "specify its permissions")
		case (len(p.AWS.PolicyARNs) > 0) == (p.AWS.InlinePolicy != ""):
			c.Bad(path, "", "must have either policyARNs or inlinePolicy, not both", "keep only one of them")
		}
	}
}

// checkIssuer checks that AWS can read the public keys for the tokens of service accounts.
func checkIssuer(c *validate.Check) {
	d := c.Spec.ServiceAccountIssuerDiscovery
	if d != nil && d.EnableAWSOIDCProvider && d.DiscoveryStore == "" && d.DiscoveryService == nil {
		c.Bad("spec.serviceAccountIssuerDiscovery.enableAWSOIDCProvider", "true", "AWS must be able to read the issuer's documents, but they are not published", "add a discoveryStore")
	}
}

// checkSourceCheck checks Calico's setting for the check of source addresses.
func checkSourceCheck(c *validate.Check) {
	k := c.Spec.Networking.Calico
	if k != nil && c.IPv6() && (k.AWSSrcDstCheck == "Enable" || k.AWSSrcDstCheck == "Disable") {
		c.Bad("spec.networking.calico.awsSrcDstCheck", k.AWSSrcDstCheck, "has no meaning for IPv6 addresses", "set it to DoNothing")
	}
}

// policyRoles returns the roles that policies can be added to, as spelled in v1alpha2.
func policyRoles() []string {
	return []string{"master", "apiserver", "node", "bastion", "etcd", "scheduler", "kubecontrollermanager"}
}

// userRole returns a role as spelled in v1alpha2.
func userRole(role string) string {
	if role == "control-plane" {
		return "master"
	}
	return role
}

// checkPolicyRole checks the role of policies, and returns their path.
func checkPolicyRole(c *validate.Check, list, role string) string {
	path := list + "[" + userRole(role) + "]"
	if role == "master" { // v1alpha2's name, read as control-plane unless that also exists
		c.Bad(path, "", "is another name for control-plane, and only one of them is read", "write all policies of the role under one of them")
		return path
	}
	c.OneOf(path, userRole(role), policyRoles()...)
	return path
}

func checkPolicies(c *validate.Check) {
	for _, role := range slices.Sorted(maps.Keys(c.Spec.AdditionalPolicies)) {
		path := checkPolicyRole(c, "spec.additionalPolicies", role)
		checkPolicy(c, path, c.Spec.AdditionalPolicies[role])
	}
	for _, role := range slices.Sorted(maps.Keys(c.Spec.ExternalPolicies)) {
		path := checkPolicyRole(c, "spec.externalPolicies", role)
		for i, arn := range c.Spec.ExternalPolicies[role] {
			if fields := strings.SplitN(arn, ":", 6); len(fields) != 6 || fields[0] != "arn" || !strings.HasPrefix(fields[5], "policy/") {
				c.Bad(validate.At(path, i), arn, "is not the ARN of a policy", "write one such as arn:aws:iam::123456789012:policy/name")
			}
		}
	}
}

// checkPolicy checks a list of IAM statements.
func checkPolicy(c *validate.Check, path, document string) {
	var statements []struct{ Effect string }
	if err := json.Unmarshal([]byte(document), &statements); err != nil {
		why := ""
		if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) {
			why = ": " + err.Error()
		}
		c.Bad(path, "", "is not a JSON list of IAM statements"+why, `write [{"Effect": "Allow", "Action": […], "Resource": […]}]`)
		return
	}
	for i, s := range statements {
		if s.Effect != "Allow" && s.Effect != "Deny" {
			c.Bad(validate.At(path, i)+".Effect", s.Effect, "is neither Allow nor Deny", "write one of them")
		}
	}
}

func checkExternalBalancers(c *validate.Check, g *api.InstanceGroup) {
	for i, lb := range g.Spec.ExternalLoadBalancers {
		path := validate.At("spec.externalLoadBalancers", i)
		name, arn := fill.Or(lb.LoadBalancerName, ""), fill.Or(lb.TargetGroupARN, "")
		if (name == "") == (arn == "") {
			c.Bad(path, "", "must have either loadBalancerName or targetGroupArn, not both", "keep only one of them")
		}
		if len(name) > 32 {
			c.Bad(path+".loadBalancerName", name, "has more than 32 characters", "use the name that the load balancer has in AWS")
		}
		if arn != "" && !isTargetGroup(arn) {
			c.Bad(path+".targetGroupArn", arn, "is not the ARN of a target group", "write one such as arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/name/0123456789abcdef")
		}
	}
}

func isTargetGroup(arn string) bool {
	fields := strings.SplitN(arn, ":", 6)
	if len(fields) != 6 || fields[0] != "arn" {
		return false
	}
	parts := strings.Split(fields[5], "/")
	return len(parts) == 3 && parts[0] == "targetgroup" && parts[1] != "" && len(parts[1]) <= 32 && parts[2] != ""
}

func checkInstanceProfile(c *validate.Check, g *api.InstanceGroup) {
	if g.Spec.IAM == nil || g.Spec.IAM.Profile == nil {
		return
	}
	arn := *g.Spec.IAM.Profile
	if fields := strings.SplitN(arn, ":", 6); len(fields) != 6 || fields[0] != "arn" || !strings.HasPrefix(fields[5], "instance-profile/") {
		c.Bad("spec.iam.profile", arn, "is not the ARN of an instance profile", "write one such as arn:aws:iam::123456789012:instance-profile/name")
	}
}

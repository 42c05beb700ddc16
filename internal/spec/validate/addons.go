package validate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/catalogue"
)

func externalDNS(c *Check) {
	e := c.Spec.ExternalDNS
	if e == nil {
		return
	}
	const path = "spec.externalDns."
	c.OneOf(path+"provider", string(e.Provider), "dns-controller", "external-dns", "none")
	if e.Provider == api.ExternalDNSProviderExternalDNS && c.Spec.DNSType() == api.DNSNone {
		c.Bad(path+"provider", string(e.Provider), "publishes DNS names, but spec.topology.dns.type is None", "use none")
	}
	c.OneOf(path+"watchNamespace", e.WatchNamespace, "kube-system")
	for i, domain := range e.AllowedDomains {
		c.allowedDomain(fmt.Sprintf("%sallowedDomains[%d]", path, i), domain)
	}
	if len(e.AllowedDomains) > 0 && e.Provider == api.ExternalDNSProviderExternalDNS {
		c.Bad(path+"allowedDomains", strings.Join(e.AllowedDomains, ", "), "has no effect: external-dns publishes the names of every namespace", "remove it, or use provider: dns-controller")
	}
}

// allowedDomain checks a domain in which objects of every namespace may publish names.
func (c *Check) allowedDomain(path, domain string) {
	name := strings.TrimPrefix(domain, "*.")
	if domain != "*" && len(validation.IsDNS1123Subdomain(strings.ReplaceAll(name, "_", "a"))) > 0 {
		c.Bad(path, domain, "is not a domain", "write a domain such as example.com, *.example.com to allow wildcards as well, or * for all names")
	}
}

// catalogueRules returns rules that check that add-ons are supported, and have what their folders
// require.
func catalogueRules(all *catalogue.Catalogue) []Rule {
	var rules []Rule
	for _, a := range all.Or().Addons() {
		for _, r := range a.Refused {
			rules = append(rules, Rule{a.Rule, func(c *Check) {
				on, err := r.When.Holds(c.view())
				c.broken(r.Path, err)
				if on {
					c.Bad(r.Path, r.Value, r.Message, r.Remedy)
				}
			}})
		}
		for _, n := range a.Requires {
			rules = append(rules, Rule{n.Rule, func(c *Check) {
				lacks, err := n.IsMissing(c.view())
				c.broken(n.Path, err)
				if lacks {
					c.Bad(n.Path, n.Value, n.Message, n.Remedy)
				}
			}})
		}
	}
	return rules
}

func clusterAutoscaler(c *Check) {
	a := c.Spec.ClusterAutoscaler
	if a == nil || !IsTrue(a.Enabled) {
		return
	}
	const path = "spec.clusterAutoscaler."
	if c.platform.Machines.NoCloud {
		c.Bad(path+"enabled", "true", "cannot add machines on "+c.title(), "remove spec.clusterAutoscaler")
	}
	c.OneOf(path+"expander", a.Expander, "least-waste", "random", "most-pods", "price", "priority")
	if a.Expander == "price" && !c.platform.Has.Prices {
		c.Bad(path+"expander", a.Expander, "does not know prices on "+c.title(), "use least-waste")
	}
}

package dns

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/node/dns/records"
)

// Rules define which names are published, and for which objects.
type Rules struct {
	Owner    Owner
	Families Families
	// Allowed are the domains in which objects of every namespace may publish names, in
	// addition to the cluster's own name.
	Allowed []Domain
}

// Domain is a set of names: with Wildcards, all names below Name, or all names if Name is
// empty; without, Name itself and all names below it that contain no wildcard.
type Domain struct {
	Name      string
	Wildcards bool
}

// ParseDomain parses DOMAIN, *.DOMAIN or *.
func ParseDomain(text string) (Domain, error) {
	name := records.Canonical(text)
	if name == "*" {
		return Domain{Wildcards: true}, nil
	}
	name, wildcards := strings.CutPrefix(name, "*.")
	if strings.Contains(name, "*") || invalid("x."+name) != "" {
		return Domain{}, fmt.Errorf("got %q; a domain is DOMAIN, *.DOMAIN with wildcards, or * for all", text)
	}
	return Domain{name, wildcards}, nil
}

// contains reports whether a name is in the domain. A label that starts with an underscore
// proves ownership of the name after it (ACME, DKIM), so it must be part of the domain.
func (d Domain) contains(name string) bool {
	rest := name
	if d.Name != "" {
		if !records.IsWithin(name, d.Name) {
			return false
		}
		rest = strings.TrimSuffix(name, d.Name)
	}
	if strings.HasPrefix(rest, "_") || strings.Contains(rest, "._") {
		return false
	}
	if d.Wildcards {
		return rest != ""
	}
	return !strings.HasPrefix(rest, "*")
}

// reserved reports whether a name belongs to the control plane: the API's public name, and
// the names that only machines of the cluster use.
func (o Owner) reserved(name string) bool {
	return name == records.Canonical(o.API) || records.IsWithin(name, strings.TrimPrefix(hostnames.Suffix(o.Cluster), "."))
}

// whyForbidden returns why an object may not publish a name; empty if it may. plane means
// that the object is a pod of kube-system on a control-plane machine.
func (r Rules) whyForbidden(o Object, plane bool, name string) string {
	if _, _, mark := hostnames.Marked(name); mark {
		return "it is reserved for the records in which dns-controller notes what it published"
	}
	switch {
	case plane:
		return ""
	case r.Owner.reserved(name):
		return fmt.Sprintf("it is reserved for the control plane, and the %s %s/%s is not a pod of kube-system on a control-plane node; choose another name", o.Kind, o.Namespace, o.Name)
	case o.Namespace == metav1.NamespaceSystem, Domain{Name: r.Owner.Cluster}.contains(name):
		return ""
	case slices.ContainsFunc(r.Allowed, func(d Domain) bool { return d.contains(name) }):
		return ""
	}
	return fmt.Sprintf("the namespace %s may not publish it; add %q or a domain that it is in to spec.externalDns.allowedDomains of the cluster, and run kops update cluster", o.Namespace, name)
}

package validate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/spec/versions"
)

func clusterName(c *Check) {
	const path = "metadata.name"
	name := c.Cluster.Name
	switch {
	case name == "":
		c.Required(path, "specify a name, such as k8s.example.com")
		return
	case len(name) > validation.DNS1123SubdomainMaxLength:
		c.Bad(path, name, fmt.Sprintf("has %d characters, but a DNS name can have at most %d", len(name), validation.DNS1123SubdomainMaxLength), "choose a shorter name")
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		c.Bad(path, name, "is not a DNS name", "use lower-case letters, digits, dots and dashes; begin and end with a letter or a digit")
	case slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return len(label) > validation.DNS1123LabelMaxLength }):
		c.Bad(path, name, fmt.Sprintf("has a label of more than %d characters", validation.DNS1123LabelMaxLength), "choose shorter parts between the dots")
	case !strings.Contains(name, ".") && c.Spec.DNSType() != api.DNSNone && c.Cluster.Annotations[api.AnnotationManagement] != "imported":
		c.Bad(path, name, "has no dot, but the cluster's names are published in DNS", "add a domain, such as "+name+".example.com, or set spec.topology.dns.type to None")
	}
	if most := c.platform.NameMax; most > 0 && len(name) > most {
		c.Bad(path, name, fmt.Sprintf("has %d characters, but %s accepts at most %d", len(name), c.title(), most), "choose a shorter name")
	}
}

func kubernetesVersion(c *Check) {
	const path = "spec.kubernetesVersion"
	v := c.Spec.KubernetesVersion
	if v == "" {
		c.Required(path, "write a version such as 1.36.3")
		return
	}
	if _, err := versions.ParseVersion(v); err != nil {
		c.Bad(path, v, "is not a version", "write a version such as 1.36.3, or the URL of a release")
	}
}

func cloudProvider(c *Check) {
	ids := c.Spec.CloudProvider.IDs()
	switch {
	case c.Cluster.CloudProviderID() == "":
		c.Required("spec.cloudProvider", "specify the cloud; the help of option:CloudProvider lists all clouds")
	case len(ids) > 1:
		c.Bad("spec.cloudProvider", fmt.Sprint(ids[0], ",", ids[1]), "is more than one cloud", "leave one")
	}
}

func gossip(c *Check) {
	const remedy = "publish names in a DNS zone, or set spec.topology.dns.type to None; kOps 1.36 can still migrate a cluster"
	if c.Spec.GossipConfig != nil {
		c.Bad("spec.gossipConfig", "", "gossip DNS is no longer supported", remedy)
	}
	if c.Spec.DNSControllerGossipConfig != nil {
		c.Bad("spec.dnsControllerGossipConfig", "", "gossip DNS is no longer supported", remedy)
	}
	if dns := c.Spec.DNSType(); strings.HasSuffix(c.Cluster.Name, ".k8s.local") && dns != api.DNSNone {
		c.Bad("spec.topology.dns.type", string(dns), "names ending in .k8s.local meant gossip DNS, which is no longer supported", remedy)
	}
}

// emptyAccess warns about empty lists of ranges, with which the platform's firewall lets no one in.
func emptyAccess(c *Check) {
	if c.platform.Name == "" || c.platform.Machines.NoCloud {
		return
	}
	if len(c.Spec.API.Access) == 0 {
		c.Warn("spec.kubernetesApiAccess", "", "is empty: the API cannot be reached from outside the network, neither by kubectl nor by kops validate", "write ranges such as 203.0.113.0/24, unless you only connect from inside the network")
	}
	if len(c.Spec.SSHAccess) == 0 && c.input.Strict { // it is often intended: only an update warns about it
		c.Warn("spec.sshAccess", "", "is empty: machines cannot be reached by SSH from outside the network", "write ranges such as 203.0.113.0/24, unless you need no SSH")
	}
}

func access(c *Check) {
	for _, l := range []struct {
		path string
		list []string
	}{
		{"spec.sshAccess", c.Spec.SSHAccess},
		{"spec.kubernetesApiAccess", c.Spec.API.Access},
		{"spec.nodePortAccess", c.Spec.NodePortAccess},
	} {
		for i, item := range l.list {
			switch {
			case !strings.HasPrefix(item, "pl-"):
				c.CIDR(At(l.path, i), item)
			case !c.platform.Has.PrefixLists:
				c.Bad(At(l.path, i), item, "prefix lists do not exist on "+c.title(), "write ranges such as 203.0.113.0/24")
			}
		}
	}
}

// CIDR checks that a text is a range without bits after its prefix, and returns it.
func (c *Check) CIDR(path, value string) (netip.Prefix, bool) {
	r, err := netip.ParsePrefix(value)
	if err != nil {
		remedy := "write a range such as 203.0.113.0/24"
		if a, err := netip.ParseAddr(value); err == nil {
			remedy = "did you mean " + likelyRange(a).String() + "?"
		}
		c.Bad(path, value, "is not a CIDR", remedy)
		return r, false
	}
	if r != r.Masked() {
		single := netip.PrefixFrom(r.Addr(), r.Addr().BitLen())
		c.Bad(path, value, "has host bits set", fmt.Sprintf("did you mean %s or %s?", single, r.Masked()))
		return r, false
	}
	return r, true
}

// likelyRange returns the range that a lone address may have been meant for: all addresses that
// begin with its bytes before the trailing zeros.
func likelyRange(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is4() && !a.IsUnspecified() {
		for b := a.As4(); b[bits/8-1] == 0; {
			bits -= 8
		}
	}
	return netip.PrefixFrom(a, bits)
}

// Parsed returns the range in a field that another rule checks.
func Parsed(value string) (netip.Prefix, bool) {
	r, err := netip.ParsePrefix(value)
	return r.Masked(), err == nil
}

// contains reports whether inner is within outer.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

func updatePolicy(c *Check, policy *string) {
	c.OneOf("spec.updatePolicy", text(policy), "automatic", "external")
}

func sysctls(c *Check, list []string) {
	for i, s := range list {
		if !strings.Contains(s, "=") {
			c.Bad(At("spec.sysctlParameters", i), s, "is not an assignment", "write name=value")
		}
	}
}

func addonManifests(c *Check) {
	for i, a := range c.Spec.Addons {
		path := At("spec.addons", i) + ".manifest"
		if strings.HasPrefix(a.Manifest, "file://") {
			c.Bad(path, a.Manifest, "is a file on this computer, which the control plane cannot read", "put it in the state store or at an https:// address")
		}
		_, sum, pinned := strings.Cut(a.Manifest, api.ManifestDigest)
		switch {
		case pinned && !download.IsSHA256(sum):
			c.Bad(path, a.Manifest, "does not end with a SHA-256", "write the 64 hexadecimal digits of the file's SHA-256 after "+api.ManifestDigest)
		case !pinned && strings.HasPrefix(strings.ToLower(a.Manifest), "http://"):
			c.Bad(path, a.Manifest, "is fetched without TLS, and is applied with full permissions in the cluster", "use https://, or add "+api.ManifestDigest+" and the SHA-256 of the file")
		}
	}
}

// components checks what completion fills in.
func components(c *Check) {
	if !c.input.Strict {
		return
	}
	const remedy = "complete the spec first"
	c.Need(c.Spec.Kubelet != nil, "spec.kubelet", remedy)
	c.Need(c.Spec.ControlPlaneKubelet != nil, "spec.masterKubelet", remedy)
	c.Need(c.Spec.KubeControllerManager != nil, "spec.kubeControllerManager", remedy)
	c.Need(c.Spec.KubeDNS != nil, "spec.kubeDNS", remedy)
	c.Need(c.Spec.KubeScheduler != nil, "spec.kubeScheduler", remedy)
	c.Need(c.Spec.KubeAPIServer != nil, "spec.kubeAPIServer", remedy)
	c.Need(c.Spec.KubeProxy != nil, "spec.kubeProxy", remedy)
}

// checkTogether checks what cannot be checked for single objects.
func (c *Check) checkTogether() {
	c.object, c.rule = api.KindCluster+"/"+c.Cluster.Name, "groups"
	planes, others := 0, 0
	for _, g := range c.input.Groups {
		if g.IsControlPlane() {
			planes++
		} else {
			others++
		}
		c.rule = "groups"
		if len(g.Spec.Volumes) > 0 && !c.platform.Has.FurtherVolumes {
			c.object = api.KindInstanceGroup + "/" + g.Name
			c.Bad("spec.volumes", "", "additional volumes are not supported on "+c.title(), "remove them")
			c.object = api.KindCluster + "/" + c.Cluster.Name
		}
	}
	if !c.input.Strict {
		return // groups may be stored after their cluster, one by one
	}
	switch {
	case planes+others == 0:
		c.Bad("", "", "the cluster has no instance groups", "add a group with the role Master and one with the role Node")
	case planes == 0:
		c.Bad("", "", "the cluster has no instance group with the role Master", "add one")
	case others == 0:
		c.Bad("", "", "the cluster has no instance group with the role Node", "add one")
	}
}

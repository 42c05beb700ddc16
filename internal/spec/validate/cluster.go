package validate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/versions"
)

func clusterName(c *check) {
	const path = "metadata.name"
	name := c.cluster.Name
	switch {
	case name == "":
		c.required(path, "give the cluster a name, such as k8s.example.com")
		return
	case len(name) > validation.DNS1123SubdomainMaxLength:
		c.bad(path, name, fmt.Sprintf("has %d characters, and a DNS name has %d at most", len(name), validation.DNS1123SubdomainMaxLength), "choose a shorter name")
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		c.bad(path, name, "is not a DNS name", "use lower-case letters, digits, dots and dashes; begin and end with a letter or a digit")
	case slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return len(label) > validation.DNS1123LabelMaxLength }):
		c.bad(path, name, fmt.Sprintf("has a label of more than %d characters", validation.DNS1123LabelMaxLength), "choose shorter parts between the dots")
	case !strings.Contains(name, ".") && complete.DNS(c.spec) != api.DNSNone && c.cluster.Annotations[api.AnnotationManagement] != "imported":
		c.bad(path, name, "has no dot, but the cluster's names are published in DNS", "add a domain, such as "+name+".example.com, or set spec.topology.dns.type to None")
	}
	if c.cloud == api.CloudLinode && len(name) > 32 {
		c.bad(path, name, fmt.Sprintf("has %d characters, and Linode takes 32", len(name)), "choose a shorter name")
	}
}

func kubernetesVersion(c *check) {
	const path = "spec.kubernetesVersion"
	v := c.spec.KubernetesVersion
	if v == "" {
		c.required(path, "write a version such as 1.36.3")
		return
	}
	if _, err := versions.ParseVersion(v); err != nil {
		c.bad(path, v, "is not a version", "write a version such as 1.36.3, or the URL of a release")
	}
}

func cloudProvider(c *check) {
	ids := c.spec.CloudProvider.IDs()
	switch {
	case len(ids) == 0 && c.cloud != api.CloudMetal:
		c.required("spec.cloudProvider", "name the cloud, such as aws")
	case len(ids) > 1:
		c.bad("spec.cloudProvider", fmt.Sprint(ids[0], ",", ids[1]), "is more than one cloud", "leave one")
	}
}

func gossip(c *check) {
	const remedy = "publish names in a DNS zone, or set spec.topology.dns.type to None; kOps 1.36 can still change a cluster over"
	if c.spec.GossipConfig != nil {
		c.bad("spec.gossipConfig", "", "gossip DNS is no longer supported", remedy)
	}
	if c.spec.DNSControllerGossipConfig != nil {
		c.bad("spec.dnsControllerGossipConfig", "", "gossip DNS is no longer supported", remedy)
	}
	if dns := complete.DNS(c.spec); strings.HasSuffix(c.cluster.Name, ".k8s.local") && dns != api.DNSNone {
		c.bad("spec.topology.dns.type", string(dns), "names ending in .k8s.local meant gossip DNS, which is no longer supported", remedy)
	}
}

func access(c *check) {
	for _, l := range []struct {
		path string
		list []string
	}{
		{"spec.sshAccess", c.spec.SSHAccess},
		{"spec.kubernetesApiAccess", c.spec.API.Access},
		{"spec.nodePortAccess", c.spec.NodePortAccess},
	} {
		for i, item := range l.list {
			switch {
			case !strings.HasPrefix(item, "pl-"):
				c.cidr(at(l.path, i), item)
			case c.cloud != api.CloudAWS:
				c.bad(at(l.path, i), item, "prefix lists exist on AWS only", "write ranges such as 203.0.113.0/24")
			}
		}
	}
}

// cidr checks that a text is a range without bits after its prefix, and returns it.
func (c *check) cidr(path, value string) (netip.Prefix, bool) {
	r, err := netip.ParsePrefix(value)
	if err != nil {
		remedy := "write a range such as 203.0.113.0/24"
		if a, err := netip.ParseAddr(value); err == nil {
			remedy = "did you mean " + likelyRange(a).String() + "?"
		}
		c.bad(path, value, "is not a range of addresses", remedy)
		return r, false
	}
	if r != r.Masked() {
		single := netip.PrefixFrom(r.Addr(), r.Addr().BitLen())
		c.bad(path, value, "has bits after its prefix", fmt.Sprintf("did you mean %s or %s?", single, r.Masked()))
		return r, false
	}
	return r, true
}

// likelyRange is what a lone address may have been meant for: all addresses that
// begin with its bytes before the last zeros.
func likelyRange(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is4() && !a.IsUnspecified() {
		for b := a.As4(); b[bits/8-1] == 0; {
			bits -= 8
		}
	}
	return netip.PrefixFrom(a, bits)
}

// parsed is a range of a field that another rule checks.
func parsed(value string) (netip.Prefix, bool) {
	r, err := netip.ParsePrefix(value)
	return r.Masked(), err == nil
}

// contains reports whether inner lies in outer.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

func updatePolicy(c *check, policy *string) {
	c.oneOf("spec.updatePolicy", text(policy), "automatic", "external")
}

func sysctls(c *check, list []string) {
	for i, s := range list {
		if !strings.Contains(s, "=") {
			c.bad(at("spec.sysctlParameters", i), s, "is not an assignment", "write name=value")
		}
	}
}

func addonManifests(c *check) {
	for i, a := range c.spec.Addons {
		path := at("spec.addons", i) + ".manifest"
		if strings.HasPrefix(a.Manifest, "file://") {
			c.bad(path, a.Manifest, "is a file of this machine, which the control plane cannot read", "put it in the state store or at an https:// address")
		}
		_, sum, pinned := strings.Cut(a.Manifest, api.ManifestDigest)
		switch {
		case pinned && !download.IsSHA256(sum):
			c.bad(path, a.Manifest, "does not end with a SHA-256", "write the 64 hexadecimal digits of the file's SHA-256 after "+api.ManifestDigest)
		case !pinned && strings.HasPrefix(strings.ToLower(a.Manifest), "http://"):
			c.bad(path, a.Manifest, "comes without TLS, and is applied with every right in the cluster", "use https://, or add "+api.ManifestDigest+" and the SHA-256 of the file")
		}
	}
}

// components are filled by completion.
func components(c *check) {
	if !c.in.Strict {
		return
	}
	const remedy = "complete the spec first"
	c.need(c.spec.Kubelet != nil, "spec.kubelet", remedy)
	c.need(c.spec.ControlPlaneKubelet != nil, "spec.masterKubelet", remedy)
	c.need(c.spec.KubeControllerManager != nil, "spec.kubeControllerManager", remedy)
	c.need(c.spec.KubeDNS != nil, "spec.kubeDNS", remedy)
	c.need(c.spec.KubeScheduler != nil, "spec.kubeScheduler", remedy)
	c.need(c.spec.KubeAPIServer != nil, "spec.kubeAPIServer", remedy)
	c.need(c.spec.KubeProxy != nil, "spec.kubeProxy", remedy)
}

// together checks what no object can say alone.
func (c *check) together() {
	c.object, c.rule = api.KindCluster+"/"+c.cluster.Name, "groups"
	planes, others := 0, 0
	for _, g := range c.in.Groups {
		if g.IsControlPlane() {
			planes++
		} else {
			others++
		}
		c.rule = "groups"
		if len(g.Spec.Volumes) > 0 && c.cloud != api.CloudAWS {
			c.object = api.KindInstanceGroup + "/" + g.Name
			c.bad("spec.volumes", "", "further volumes are made on AWS only", "remove them")
			c.object = api.KindCluster + "/" + c.cluster.Name
		}
	}
	if !c.in.Strict {
		return // groups may be stored after their cluster, one by one
	}
	switch {
	case planes+others == 0:
		c.bad("", "", "the cluster has no instance groups", "add a group of role Master and one of role Node")
	case planes == 0:
		c.bad("", "", "the cluster has no instance group of role Master", "add one")
	case others == 0:
		c.bad("", "", "the cluster has no instance group of role Node", "add one")
	}
}

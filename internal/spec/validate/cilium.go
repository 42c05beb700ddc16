package validate

import (
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
)

const ciliumPath = "spec.networking.cilium."

func ciliumVersion(c *check) {
	k := c.spec.Networking.Cilium
	if k == nil || k.Version == "" {
		return
	}
	text, prefixed := strings.CutPrefix(k.Version, "v")
	v, err := semver.Parse(text)
	switch {
	case !prefixed || err != nil:
		c.bad(ciliumPath+"version", k.Version, "is not a version of Cilium", "write one such as v1.18.12")
	case v.Major != 1 || v.Minor != 18:
		c.bad(ciliumPath+"version", k.Version, "is not supported", "use a version 1.18, such as v1.18.12, or remove it")
	}
}

func cilium(c *check) {
	k := c.spec.Networking.Cilium
	if k == nil {
		return
	}
	c.oneOf(ciliumPath+"enablePolicy", k.EnablePolicy, "default", "always", "never")
	c.oneOf(ciliumPath+"tunnel", k.Tunnel, "vxlan", "geneve", "disabled")
	c.oneOf(ciliumPath+"monitorAggregation", k.MonitorAggregation, "low", "medium", "maximum")
	c.oneOf(ciliumPath+"bpfLBAlgorithm", k.BPFLBAlgorithm, "random", "maglev")
	if k.BPFLBSockHostNSOnly && !k.BPFLBSock {
		c.bad(ciliumPath+"bpfLBSockHostNSOnly", "true", "has no effect without bpfLBSock", "set bpfLBSock to true")
	}
	if isTrue(k.EnableL7Proxy) && isFalse(k.InstallIptablesRules) {
		c.bad(ciliumPath+"enableL7Proxy", "true", "needs iptables rules, which IPTablesRulesNoinstall leaves out", "set one of them to false")
	}
	c.oneOf(ciliumPath+"ipam", k.IPAM, "hostscope", "kubernetes", "crd", "eni")
	if k.IPAM == "eni" {
		if c.cloud != api.CloudAWS {
			c.bad(ciliumPath+"ipam", k.IPAM, "exists on AWS only", "use kubernetes")
		}
		if c.ipv6() {
			c.bad(ciliumPath+"ipam", k.IPAM, "gives pods IPv4 addresses only, and the cluster is IPv6", "use kubernetes")
		}
	}
	if k.Ingress != nil {
		c.oneOf(ciliumPath+"ingress.defaultLoadBalancerMode", k.Ingress.DefaultLoadBalancerMode, "shared", "dedicated")
	}
}

func ciliumEncryption(c *check) {
	k := c.spec.Networking.Cilium
	switch {
	case k == nil:
	case k.EnableEncryption && c.ipv6():
		c.bad(ciliumPath+"enableEncryption", "true", "does not encrypt IPv6", "remove it")
	case k.EncryptionType != "" && !k.EnableEncryption:
		c.bad(ciliumPath+"encryptionType", string(k.EncryptionType), "has no effect without enableEncryption", "set enableEncryption to true")
	}
}

func ciliumIdentity(c *check) {
	k := c.spec.Networking.Cilium
	if k == nil {
		return
	}
	c.oneOf(ciliumPath+"identityAllocationMode", k.IdentityAllocationMode, "crd", "kvstore")
	if k.IdentityAllocationMode == "kvstore" && !k.EtcdManaged {
		c.bad(ciliumPath+"identityAllocationMode", "kvstore", "needs an etcd", "set etcdManaged to true")
	}
	if k.EtcdManaged && !c.hasEtcd("cilium") {
		c.bad(ciliumPath+"etcdManaged", "true", "the cluster has no etcd of the name cilium", "add one to spec.etcdClusters")
	}
}

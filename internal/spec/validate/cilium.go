package validate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
)

const ciliumPath = "spec.networking.cilium."

func ciliumVersion(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil || k.Version == "" {
		return
	}
	text, prefixed := strings.CutPrefix(k.Version, "v")
	v, err := semver.Parse(text)
	switch {
	case !prefixed || err != nil:
		c.Bad(ciliumPath+"version", k.Version, "is not a version of Cilium", "write one such as v1.18.12")
	case v.Major != 1 || v.Minor != 18:
		c.Bad(ciliumPath+"version", k.Version, "is not supported", "use a 1.18 version, such as v1.18.12, or remove it")
	}
}

func cilium(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil {
		return
	}
	c.OneOf(ciliumPath+"enablePolicy", k.EnablePolicy, "default", "always", "never")
	c.OneOf(ciliumPath+"tunnel", k.Tunnel, "vxlan", "geneve", "disabled")
	c.OneOf(ciliumPath+"monitorAggregation", k.MonitorAggregation, "low", "medium", "maximum")
	c.OneOf(ciliumPath+"bpfLBAlgorithm", k.BPFLBAlgorithm, "random", "maglev")
	if k.BPFLBSockHostNSOnly && !k.BPFLBSock {
		c.Bad(ciliumPath+"bpfLBSockHostNSOnly", "true", "has no effect without bpfLBSock", "set bpfLBSock to true")
	}
	if IsTrue(k.EnableL7Proxy) && IsFalse(k.InstallIptablesRules) {
		c.Bad(ciliumPath+"enableL7Proxy", "true", "needs iptables rules, which IPTablesRulesNoinstall disables", "set one of them to false")
	}
	c.OneOf(ciliumPath+"ipam", k.IPAM, "hostscope", "kubernetes", "crd", "eni")
	if k.IPAM == "eni" {
		if !c.platform.Has.NetworkAddresses {
			c.Bad(ciliumPath+"ipam", k.IPAM, "does not exist on "+c.title(), "use kubernetes")
		}
		if c.IPv6() {
			c.Bad(ciliumPath+"ipam", k.IPAM, "gives pods only IPv4 addresses, but the cluster uses IPv6", "use kubernetes")
		}
	}
	if i := k.Ingress; i != nil {
		c.OneOf(ciliumPath+"ingress.defaultLoadBalancerMode", i.DefaultLoadBalancerMode, "shared", "dedicated")
		if name := i.SharedLoadBalancerServiceName; name != "" && len(validation.IsDNS1035Label(name)) > 0 {
			c.Bad(ciliumPath+"ingress.sharedLoadBalancerServiceName", name, "is not the name of a Service", "use at most 63 lower-case letters, digits and dashes; begin with a letter, and end with a letter or a digit")
		}
	}
	for _, key := range sortedKeys(k.ExtraConfig) {
		if len(validation.IsConfigMapKey(key)) > 0 {
			c.Bad(ciliumPath+"extraConfig["+key+"]", k.ExtraConfig[key], "does not have a valid key of a ConfigMap", "use letters, digits, dashes, dots and underscores")
		}
	}
}

// The name of a cluster in a mesh of Cilium's: the longest one, and the one of clusters outside of a
// mesh.
const (
	ciliumNameMax     = 32
	ciliumNameDefault = "default"
)

// CiliumSetting returns the value of a key of Cilium's ConfigMap and where the user writes it: in
// extraConfig, which overrides the rest, or in the field for it.
func CiliumSetting(k *api.CiliumNetworkingSpec, key, field, value string) (path, effective string) {
	if v, ok := k.ExtraConfig[key]; ok {
		return ciliumPath + "extraConfig[" + key + "]", v
	}
	return ciliumPath + field, value
}

// ciliumCluster checks the name and the number of a cluster in a mesh: Cilium's agents exit at once
// if they do not accept them (pkg/clustermesh/types/option.go).
func ciliumCluster(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil {
		return
	}
	namePath, name := CiliumSetting(k, "cluster-name", "clusterName", cmp.Or(k.ClusterName, ciliumNameDefault))
	if len(name) > ciliumNameMax || len(validation.IsDNS1123Label(name)) > 0 {
		c.Bad(namePath, name, "is not a name that Cilium accepts", fmt.Sprintf("use at most %d lower-case letters, digits and dashes; begin and end with a letter or a digit", ciliumNameMax))
	}
	idPath, id := CiliumSetting(k, "cluster-id", "clusterID", Number(int(k.ClusterID)))
	n, err := strconv.ParseUint(id, 0, 32)
	switch {
	case id == "": // as if it was not set
	case err != nil:
		c.Bad(idPath, id, "is not a number", "write a number from 1 to 255, or remove it")
	case n != 0 && name == ciliumNameDefault:
		c.Bad(idPath, id, "needs a name of the cluster's own: Cilium does not start with clusterName "+ciliumNameDefault, "set clusterName")
	}
}

func ciliumEncryption(c *Check) {
	k := c.Spec.Networking.Cilium
	switch {
	case k == nil:
	case k.EnableEncryption && c.IPv6():
		c.Bad(ciliumPath+"enableEncryption", "true", "does not encrypt IPv6", "remove it")
	case k.EncryptionType != "" && !k.EnableEncryption:
		c.Bad(ciliumPath+"encryptionType", string(k.EncryptionType), "has no effect without enableEncryption", "set enableEncryption to true")
	}
}

func ciliumIdentity(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil {
		return
	}
	c.OneOf(ciliumPath+"identityAllocationMode", k.IdentityAllocationMode, "crd", "kvstore")
	if k.IdentityAllocationMode == "kvstore" && !k.EtcdManaged {
		c.Bad(ciliumPath+"identityAllocationMode", "kvstore", "needs an etcd cluster", "set etcdManaged to true")
	}
	if k.EtcdManaged && !c.hasEtcd("cilium") {
		c.Bad(ciliumPath+"etcdManaged", "true", "the cluster has no etcd cluster named cilium", "add one to spec.etcdClusters")
	}
}

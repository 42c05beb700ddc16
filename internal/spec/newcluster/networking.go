package newcluster

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

// networkings returns the pod networks by the values of --networking.
func networkings() map[string]func(*Builder, *api.NetworkingSpec) {
	cilium := func(change func(*api.CiliumNetworkingSpec)) func(*Builder, *api.NetworkingSpec) {
		return func(b *Builder, n *api.NetworkingSpec) {
			n.Cilium = &api.CiliumNetworkingSpec{EnableNodePort: true}
			change(n.Cilium)
			b.disableKubeProxy()
		}
	}
	flannel := func(backend string) func(*Builder, *api.NetworkingSpec) {
		return func(_ *Builder, n *api.NetworkingSpec) { n.Flannel = &api.FlannelNetworkingSpec{Backend: backend} }
	}
	kopeio := func(_ *Builder, n *api.NetworkingSpec) { n.Kopeio = &api.KopeioNetworkingSpec{} }
	amazon := func(_ *Builder, n *api.NetworkingSpec) { n.AmazonVPC = &api.AmazonVPCNetworkingSpec{} }
	gcp := func(_ *Builder, n *api.NetworkingSpec) { n.GCP = &api.GCPNetworkingSpec{} }
	return map[string]func(*Builder, *api.NetworkingSpec){
		"kubenet":       func(_ *Builder, n *api.NetworkingSpec) { n.Kubenet = &api.KubenetNetworkingSpec{} },
		"external":      func(_ *Builder, n *api.NetworkingSpec) { n.External = &api.ExternalNetworkingSpec{} },
		"cni":           func(_ *Builder, n *api.NetworkingSpec) { n.CNI = &api.CNINetworkingSpec{} },
		"kopeio":        kopeio,
		"kopeio-vxlan":  kopeio,
		"flannel":       flannel("vxlan"),
		"flannel-vxlan": flannel("vxlan"),
		"flannel-udp":   flannel("udp"),
		"calico":        func(_ *Builder, n *api.NetworkingSpec) { n.Calico = &api.CalicoNetworkingSpec{} },
		"kube-router": func(b *Builder, n *api.NetworkingSpec) {
			n.KubeRouter = &api.KuberouterNetworkingSpec{}
			b.disableKubeProxy()
		},
		"amazonvpc":             amazon,
		"amazon-vpc-routed-eni": amazon,
		"cilium":                cilium(func(*api.CiliumNetworkingSpec) {}),
		"cilium-etcd":           cilium(func(c *api.CiliumNetworkingSpec) { c.EtcdManaged = true }),
		"cilium-eni":            cilium(func(c *api.CiliumNetworkingSpec) { c.IPAM = "eni" }),
		"gcp":                   gcp,
		"gce":                   gcp,
		"kindnet":               func(_ *Builder, n *api.NetworkingSpec) { n.Kindnet = &api.KindnetNetworkingSpec{} },
	}
}

func (b *Builder) setNetworking() {
	all := networkings()
	set, ok := all[b.Options.Networking]
	if !ok {
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		remedy := "use one of " + strings.Join(names, ", ")
		if near := diag.Nearest(b.Options.Networking, names); near != "" {
			remedy = "did you mean " + near + "?"
		}
		b.Fail("option:Networking", b.Options.Networking, "unknown networking", remedy)
		return
	}
	set(b, &b.Spec.Networking)
	if b.Options.Networking == "cilium-etcd" && !slices.Contains(b.EtcdClusters, "cilium") {
		b.EtcdClusters = append(slices.Clone(b.EtcdClusters), "cilium")
	}
}

// disableKubeProxy leaves services to the pod network, unless the user specified otherwise.
func (b *Builder) disableKubeProxy() {
	if b.Spec.KubeProxy == nil {
		b.Spec.KubeProxy = &api.KubeProxyConfig{}
	}
	if b.Spec.KubeProxy.Enabled == nil {
		b.Spec.KubeProxy.Enabled = new(bool)
	}
}

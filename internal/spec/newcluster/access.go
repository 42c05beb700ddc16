package newcluster

import (
	"strings"

	"kops.local/kops/api"
)

func (b *Builder) setDNS() {
	t := &api.TopologySpec{}
	switch strings.ToLower(b.DNSType) {
	case "public":
		t.DNS = api.DNSPublic
	case "private":
		t.DNS = api.DNSPrivate
	case "none":
		t.DNS = api.DNSNone
	default:
		b.Fail("option:DNSType", b.DNSType, "unknown kind of DNS", "use public, private or none")
	}
	b.Spec.DNSZone = b.DNSZone
	if b.Bastion {
		if !b.private() {
			b.Fail("option:Bastion", "true", "a bastion gives access to private subnets, but this cluster has no private subnets", "add option:Topology private")
		}
		if t.DNS != api.DNSNone {
			t.Bastion = &api.BastionSpec{PublicName: "bastion." + b.ClusterName}
		}
	}
	b.Spec.Networking.Topology = t
}

// setAPI chooses how the API is reached: by DNS records of the machines only if these are public
// and names are published.
func (b *Builder) setAPI() {
	b.Spec.API.PublicName = b.APIPublicName
	published := b.Spec.Networking.Topology.DNS != api.DNSNone && !gossip(b.ClusterName)
	asked := b.APILoadBalancerType != "" || b.APISSLCertificate != ""
	if !asked && !b.private() && published {
		b.Spec.API.DNS = &api.DNSAccessSpec{}
		return
	}
	lb := &api.LoadBalancerAccessSpec{SSLCertificate: b.APISSLCertificate}
	switch strings.ToLower(b.APILoadBalancerType) {
	case "", "public":
		lb.Type = api.LoadBalancerPublic
	case "internal":
		lb.Type = api.LoadBalancerInternal
	default:
		b.Fail("option:APILoadBalancerType", b.APILoadBalancerType, "unknown type of load balancer", "use public or internal")
	}
	if b.platform.Has.BalancerClass {
		lb.Class = api.LoadBalancerNetwork
	}
	b.Spec.API.LoadBalancer = lb
}

// gossip reports whether the name is not known to any DNS server.
func gossip(cluster string) bool { return strings.HasSuffix(cluster, ".k8s.local") }

func (b *Builder) private() bool { return b.Topology == "private" }

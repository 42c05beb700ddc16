package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/newcluster"
)

// newClusterRules returns the rules by which a new cluster on OpenStack is described.
func newClusterRules() newcluster.Rules {
	return newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "os-ext-net", Usage: "OpenStack: external network"},
			{Name: "os-ext-subnet", Usage: "OpenStack: external subnet"},
			{Name: "os-dns-servers", Usage: "OpenStack: name servers"},
			{Name: "os-network", Usage: "OpenStack: existing network"},
			{Name: "os-lb-floating-subnet", Usage: "OpenStack: floating subnet of load balancers"},
			{Name: "os-octavia", Usage: "OpenStack: load balancers by Octavia", Switch: true},
			{Name: "os-octavia-provider", Usage: "OpenStack: Octavia's provider"},
			{Name: "os-kubelet-ignore-az", Usage: "OpenStack: attach volumes across zones", Switch: true},
		},
		Defaults: func(b *newcluster.Builder) {
			if b.NetworkID == "" {
				b.NetworkID = b.Own["os-network"]
			}
		},
		Describe: func(b *newcluster.Builder) {
			b.Spec.CloudProvider.Openstack = memberSpec(b)
			b.Spec.CloudControllerManager = &api.CloudControllerManagerConfig{ClusterName: b.ClusterName}
		},
	}
}

func memberSpec(b *newcluster.Builder) *api.OpenstackSpec {
	net, ignoreAZ := b.Own["os-ext-net"], b.Own["os-kubelet-ignore-az"] == "true"
	delay, timeout, retries, version := "15s", "10s", 3, "v3"
	o := &api.OpenstackSpec{
		Router: &api.OpenstackRouter{
			ExternalNetwork: &net,
			DNSServers:      newcluster.NotEmpty(b.Own["os-dns-servers"]),
			ExternalSubnet:  newcluster.NotEmpty(b.Own["os-ext-subnet"]),
		},
		BlockStorage: &api.OpenstackBlockStorageConfig{BSVersion: &version, IgnoreVolumeAZ: &ignoreAZ, ClusterName: b.ClusterName},
		Monitor:      &api.OpenstackMonitor{Delay: &delay, Timeout: &timeout, MaxRetries: &retries},
	}
	if b.APILoadBalancerType != "" {
		o.LoadBalancer = balancerSpec(b)
	}
	return o
}

func balancerSpec(b *newcluster.Builder) *api.OpenstackLoadbalancerConfig {
	net, octavia := b.Own["os-ext-net"], b.Own["os-octavia"] == "true"
	provider, method := "haproxy", "ROUND_ROBIN"
	if octavia {
		provider = "octavia"
	}
	if b.Own["os-octavia-provider"] != "" {
		provider = b.Own["os-octavia-provider"]
	}
	if provider == "ovn" {
		method = "SOURCE_IP_PORT"
	}
	return &api.OpenstackLoadbalancerConfig{
		FloatingNetwork: &net, FloatingSubnet: newcluster.NotEmpty(b.Own["os-lb-floating-subnet"]),
		Method: &method, Provider: &provider, UseOctavia: &octavia,
	}
}

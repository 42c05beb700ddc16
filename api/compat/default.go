package compat

import "kops.local/kops/api"

// setDefaults sets the defaults of both versions: DNS names are public, authorization is by
// RBAC, and flannel's backend is udp. Decode calls it.
func setDefaults(o api.Object) {
	c, ok := o.(*api.Cluster)
	if !ok {
		return
	}
	network := &c.Spec.Networking
	if network.Topology == nil {
		network.Topology = &api.TopologySpec{}
	}
	if network.Topology.DNS == "" {
		network.Topology.DNS = api.DNSPublic
	}
	if network.Flannel != nil && network.Flannel.Backend == "" {
		network.Flannel.Backend = "udp"
	}
	if c.Spec.Authorization == nil {
		c.Spec.Authorization = &api.AuthorizationSpec{}
	}
	if a := c.Spec.Authorization; a.RBAC == nil && a.AlwaysAllow == nil {
		a.RBAC = &api.RBACAuthorizationSpec{}
	}
}

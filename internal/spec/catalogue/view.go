package catalogue

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
)

// View is what conditions see of a cluster.
type View struct {
	// Name is the cluster's.
	Name   string
	Spec   *api.ClusterSpec
	Groups []*api.InstanceGroup
	// Cloud is the platform's name, such as aws.
	Cloud string
	// Platform is what else is known of it; never nil.
	Platform *traits.Traits
}

// ViewOf returns what conditions see of a cluster on a platform; nil is one without traits.
func ViewOf(c *api.Cluster, groups []*api.InstanceGroup, on *traits.Traits) *View {
	if on == nil {
		on = &traits.Traits{}
	}
	return &View{Name: c.Name, Spec: &c.Spec, Groups: groups, Cloud: string(c.CloudProviderID()), Platform: on}
}

// TemplateFunc returns a function that conditions and manifests call.
func (v *View) TemplateFunc(name string) any {
	switch name {
	case "DNSProvider":
		return v.DNSProvider
	case "DNSType":
		return v.Spec.DNSType
	case "IPv6":
		return v.IPv6
	case "KubeProxy":
		return v.KubeProxy
	case "Labelled":
		return v.Labelled
	case "Machines":
		return v.Machines
	case "ManagedStorage":
		return v.ManagedStorage
	case "NoDNS":
		return v.NoDNS
	case "OwnRoles":
		return v.OwnRoles
	case "Replicas":
		return v.Replicas
	case "WithRole":
		return v.WithRole
	case "ZoneSpec":
		return v.ZoneSpec
	}
	return nil
}

// IPv6 reports whether pods and services have IPv6 addresses only.
func (v *View) IPv6() bool { return v.Spec.IPv6Only() }

// NoDNS reports whether the cluster's names are published nowhere.
func (v *View) NoDNS() bool { return v.Spec.DNSType() == api.DNSNone }

// ZoneSpec picks the zone of the cluster's names, as dns-controller reads it: by a name, which has a
// dot, or by an identifier. Empty: the spec names none.
func (v *View) ZoneSpec() string {
	if zone := v.Spec.DNSZone; zone == "" || strings.Contains(zone, ".") {
		return zone
	}
	return "*/" + v.Spec.DNSZone
}

// DNSProvider is what publishes names; "none" when nothing does.
func (v *View) DNSProvider() string {
	p := v.Spec.ExternalDNS
	switch {
	case v.NoDNS():
		return string(api.ExternalDNSProviderNone)
	case p == nil || p.Provider == "":
		return string(api.ExternalDNSProviderDNSController)
	}
	return string(p.Provider)
}

// KubeProxy reports whether kube-proxy runs on the nodes.
func (v *View) KubeProxy() bool {
	p := v.Spec.KubeProxy
	return p == nil || p.Enabled == nil || *p.Enabled
}

// OwnRoles reports whether pods act in roles of their service accounts.
func (v *View) OwnRoles() bool {
	i := v.Spec.IAM
	return i != nil && i.UseServiceAccountExternalPermissions != nil && *i.UseServiceAccountExternalPermissions
}

// WithRole lists the groups of a role.
func (v *View) WithRole(role string) []*api.InstanceGroup {
	return slices.DeleteFunc(slices.Clone(v.Groups), func(g *api.InstanceGroup) bool { return string(g.Spec.Role) != role })
}

// Machines is the least number of machines of a role.
func (v *View) Machines(role string) int {
	n := 0
	for _, g := range v.WithRole(role) {
		if g.Spec.MinSize != nil {
			n += int(*g.Spec.MinSize)
		}
	}
	return n
}

// Labelled reports whether the nodes of some group have a label.
func (v *View) Labelled(key string) bool {
	return slices.ContainsFunc(v.Groups, func(g *api.InstanceGroup) bool { return g.Spec.NodeLabels[key] != "" })
}

// ManagedStorage reports whether the platform's storage classes are kops' to make.
func (v *View) ManagedStorage() bool {
	c := v.Spec.CloudConfig
	return c == nil || c.ManageStorageClasses == nil || *c.ManageStorageClasses
}

// Replicas is how often something runs that should outlive a machine of the control plane.
func (v *View) Replicas() int {
	return min(max(v.Machines(string(api.RoleControlPlane)), 1), 2)
}

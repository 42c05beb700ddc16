package catalogue

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
)

// View is the data about a cluster that conditions use.
type View struct {
	// Name is the cluster's.
	Name   string
	Spec   *api.ClusterSpec
	Groups []*api.InstanceGroup
	// Cloud is the platform's name, such as aws.
	Cloud string
	// Platform has everything else that is known about it; never nil.
	Platform *traits.Traits
}

// ViewOf returns the view of a cluster on a platform; nil means one without traits.
func ViewOf(c *api.Cluster, groups []*api.InstanceGroup, on *traits.Traits) *View {
	if on == nil {
		on = &traits.Traits{}
	}
	return &View{Name: c.Name, Spec: &c.Spec, Groups: groups, Cloud: string(c.CloudProviderID()), Platform: on}
}

// TemplateFunc returns a function for conditions and manifests.
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

// NoDNS reports whether the cluster's names are not published.
func (v *View) NoDNS() bool { return v.Spec.DNSType() == api.DNSNone }

// ZoneSpec selects the zone of the cluster's names, in dns-controller's syntax: by a name, which
// has a dot, or by an identifier. It is empty if the spec names none.
func (v *View) ZoneSpec() string {
	if zone := v.Spec.DNSZone; zone == "" || strings.Contains(zone, ".") {
		return zone
	}
	return "*/" + v.Spec.DNSZone
}

// DNSProvider returns what publishes names; "none" if nothing does.
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

// OwnRoles reports whether service accounts have roles of their own.
func (v *View) OwnRoles() bool {
	i := v.Spec.IAM
	return i != nil && i.UseServiceAccountExternalPermissions != nil && *i.UseServiceAccountExternalPermissions
}

// WithRole lists the groups with a role.
func (v *View) WithRole(role string) []*api.InstanceGroup {
	return slices.DeleteFunc(slices.Clone(v.Groups), func(g *api.InstanceGroup) bool { return string(g.Spec.Role) != role })
}

// Machines returns the minimum number of machines of a role.
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

// ManagedStorage reports whether kops creates the platform's storage classes.
func (v *View) ManagedStorage() bool {
	c := v.Spec.CloudConfig
	return c == nil || c.ManageStorageClasses == nil || *c.ManageStorageClasses
}

// Replicas returns how many replicas run of a controller of the cluster: two if there are several
// groups of control-plane machines, as in kOps.
func (v *View) Replicas() int {
	return min(max(len(v.WithRole(string(api.RoleControlPlane))), 1), 2)
}

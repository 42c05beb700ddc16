package addons

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/localcloud"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/versions"
)

// View is what the templates of the catalogue see.
type View struct {
	// Name is the cluster's.
	Name string
	// Spec is completed.
	Spec   *api.ClusterSpec
	Groups []*api.InstanceGroup
	// Cloud is the platform's name, such as aws.
	Cloud string
	// Version is kops' own.
	Version string
	Region  string
	// Own are values of the platform's own, by name.
	Own map[string]string

	in     Input
	images *[]Image
}

func newView(in Input) (*View, error) {
	v := &View{Name: in.Cluster.Name, Spec: &in.Cluster.Spec, Groups: in.Groups, Cloud: string(in.Cluster.CloudProviderID()),
		Version: in.Version, Region: in.Region, in: in, images: &[]Image{}}
	if of := in.Traits.Model.Values; of != nil {
		var err error
		if v.Own, err = of(in.Cluster, v.facts(), in.Region); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// used lists the images that templates asked for, each once.
func (v *View) used() []Image {
	slices.SortFunc(*v.images, func(a, b Image) int { return strings.Compare(a.Public, b.Public) })
	return slices.Compact(*v.images)
}

// image notes that a pod runs an image and returns what it is called for the cluster.
func (v *View) image(public string) string {
	i := Image{public, Pull(public, v.Spec.Assets, v.in.Facts)}
	*v.images = append(*v.images, i)
	return i.Used
}

// Minor is the minor version of Kubernetes 1; 0 when the version is none.
func (v *View) Minor() int {
	k, err := versions.ParseVersion(v.Spec.KubernetesVersion)
	if err != nil {
		return 0
	}
	return int(k.Minor)
}

// IPv6 reports whether pods and services have IPv6 addresses only.
func (v *View) IPv6() bool { return v.Spec.IPv6Only() }

// NoDNS reports whether the cluster's names are published nowhere.
func (v *View) NoDNS() bool { return v.Spec.DNSType() == api.DNSNone }

// PrivateDNS reports whether the cluster's names are published in a private zone.
func (v *View) PrivateDNS() bool { return v.Spec.DNSType() == api.DNSPrivate }

// RemovesNodes reports whether kops-controller removes the nodes of machines that are gone.
func (v *View) RemovesNodes() bool { return v.in.Traits.Model.RemovesNodes }

// DNSProvider is what publishes names; "none" when nothing does.
func (v *View) DNSProvider() string {
	if v.NoDNS() || v.Spec.ExternalDNS == nil {
		return string(api.ExternalDNSProviderNone)
	}
	return string(v.Spec.ExternalDNS.Provider)
}

// KubeProxy reports whether kube-proxy runs on the nodes.
func (v *View) KubeProxy() bool {
	p := v.Spec.KubeProxy
	return p == nil || p.Enabled == nil || *p.Enabled
}

// Local reports whether the machines are containers of one host.
func (v *View) Local() bool { return v.in.Traits.Machines.Shared }

// FixedDNS reports whether the number of DNS servers follows the spec's nodes, so that
// no autoscaler is needed.
func (v *View) FixedDNS() bool { return v.in.Traits.Model.FixedDNS }

// NodeRoutes reports whether the nodes keep the routes to each other's pods
// themselves, as nothing of their cloud does.
func (v *View) NodeRoutes() bool {
	return v.in.Traits.Model.NodeRoutes && v.Spec.Networking.Kubenet != nil
}

// StoreFolders are the folders that hold the cluster's files and its secrets,
// each but once; none where the store is no folder.
func (v *View) StoreFolders() []string {
	var out []string
	for _, url := range []string{v.Spec.ConfigStore.Base, v.Spec.ConfigStore.Secrets} {
		folder, ok := managedfile.FolderOf(url)
		if ok && !slices.ContainsFunc(out, func(above string) bool { return folder == above || strings.HasPrefix(folder, above+"/") }) {
			out = append(out, folder)
		}
	}
	return out
}

// MachineRegistry is where the control plane of a local cluster sees the entries
// of its machines.
func (v *View) MachineRegistry() string { return localcloud.Registry }

// APIServer is where pods of the host network reach the API server without a service.
func (v *View) APIServer() string { return hostnames.API(v.Name) }

// ControlPlanes is the number of machines of the control plane, at least one.
func (v *View) ControlPlanes() int {
	n := 0
	for _, g := range v.Groups {
		if g.IsControlPlane() && g.Spec.MinSize != nil {
			n += int(*g.Spec.MinSize)
		}
	}
	return max(n, 1)
}

// DNSReplicas is how many pods answer DNS where their number does not follow that of the nodes.
func (v *View) DNSReplicas() int {
	n := 0
	for _, g := range v.WithRole(string(api.RoleNode)) {
		if g.Spec.MinSize != nil {
			n += int(*g.Spec.MinSize)
		}
	}
	return min(max(n, 1), 2)
}

// Replicas is how often something runs that should outlive a machine of the control plane.
func (v *View) Replicas() int {
	if v.ControlPlanes() > 1 {
		return 2
	}
	return 1
}

// OwnRoles reports whether pods act in roles of their service accounts.
func (v *View) OwnRoles() bool {
	i := v.Spec.IAM
	return i != nil && i.UseServiceAccountExternalPermissions != nil && *i.UseServiceAccountExternalPermissions
}

// EtcdCluster reports whether there is an etcd cluster of the name.
func (v *View) EtcdCluster(name string) bool {
	return slices.ContainsFunc(v.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
}

// WithRole lists the groups of a role.
func (v *View) WithRole(role string) []*api.InstanceGroup {
	return slices.DeleteFunc(slices.Clone(v.Groups), func(g *api.InstanceGroup) bool { return string(g.Spec.Role) != role })
}

// NvidiaGPU reports whether some machines have processors of NVIDIA's to offer.
func (v *View) NvidiaGPU() bool {
	return slices.ContainsFunc(v.Groups, func(g *api.InstanceGroup) bool { return g.Spec.NodeLabels["kops.k8s.io/gpu"] != "" })
}

// GVisor reports whether some machines run pods in gVisor's sandbox.
func (v *View) GVisor() bool {
	return slices.ContainsFunc(v.Groups, func(g *api.InstanceGroup) bool { return g.Spec.NodeLabels["kops.k8s.io/gvisor"] != "" })
}

// ManagedStorage reports whether the platform's storage classes are kops' to make.
func (v *View) ManagedStorage() bool {
	c := v.Spec.CloudConfig
	return c == nil || c.ManageStorageClasses == nil || *c.ManageStorageClasses
}

package addons

import (
	"fmt"
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/spec/facts"
)

// ControllerConfig is the configuration of kops-controller.
func (v *View) ControllerConfig() (any, error) {
	const folder = paths.Controller + "/pki"
	c := controllerconfig.Config{
		ClusterName: v.Name, Cloud: v.Cloud, ConfigBase: v.Spec.ConfigStore.Base, SecretStore: v.Spec.ConfigStore.Secrets,
		CloudIPAM: v.IPv6() && v.in.Traits.Has.PodRanges,
		Server: controllerconfig.Server{
			Listen: ":" + strconv.Itoa(ports.Controller), KeyPath: folder + "/kops-controller.key", CertificatePath: folder + "/kops-controller.crt", CABasePath: folder,
			SigningCAs: []string{pki.KubernetesCA}, CertNames: []string{controllerconfig.CertKubelet, controllerconfig.CertKubeletServer},
			Provider: map[string]any{v.Cloud: struct{}{}},
		},
	}
	if v.KubeProxy() {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertKubeProxy)
	}
	n := v.Spec.Networking
	if n.KubeRouter != nil {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertKubeRouter)
	}
	if n.Cilium != nil && n.Cilium.EtcdManaged {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertEtcdClientCilium)
		c.Server.SigningCAs = append(c.Server.SigningCAs, pki.EtcdClientsCiliumCA)
	}
	if own := v.in.Traits.Model.Controller; own != nil {
		part, err := own(v.in.Cluster, v.Groups, v.facts(), v.Region)
		if err != nil {
			return nil, err
		}
		c.Server.Provider[v.Cloud] = part
	}
	return c, nil
}

// facts are those of the cluster's platform.
func (v *View) facts() *facts.Cloud { return v.in.Facts.Of(v.Cloud) }

// AutoscaledGroups are the node groups whose size the cluster autoscaler
// changes, as its flag takes them: least:most:name.
func (v *View) AutoscaledGroups() []string {
	var out []string
	for _, g := range v.autoscaled() {
		if g.Spec.MinSize != nil && g.Spec.MaxSize != nil {
			out = append(out, fmt.Sprintf("%d:%d:%s", *g.Spec.MinSize, *g.Spec.MaxSize, v.scalingGroup(g)))
		}
	}
	return out
}

// AutoscalingPriorities are the names of the node groups by their priority.
func (v *View) AutoscalingPriorities() map[string][]string {
	out := map[string][]string{}
	for _, g := range v.autoscaled() {
		p := strconv.Itoa(int(g.Spec.AutoscalePriority))
		out[p] = append(out[p], v.scalingGroup(g))
	}
	return out
}

// autoscaled are the groups that the autoscaler may change: those of nodes, unless a user said no.
func (v *View) autoscaled() []*api.InstanceGroup {
	return slices.DeleteFunc(v.WithRole(string(api.RoleNode)), func(g *api.InstanceGroup) bool {
		return g.Spec.Autoscale != nil && !*g.Spec.Autoscale || g.Spec.Manager == api.ManagerKarpenter
	})
}

// scalingGroup is the platform's name of a node group.
func (v *View) scalingGroup(g *api.InstanceGroup) string {
	if of := v.in.Traits.Model.ScalingGroup; of != nil {
		return of(v.Name, g)
	}
	return g.Name + "." + v.Name
}

// PodNetworkEnvironment are the variables that a user gives Amazon's pod network.
func (v *View) PodNetworkEnvironment() map[string]string {
	out := map[string]string{}
	if n := v.Spec.Networking.AmazonVPC; n != nil {
		for _, e := range n.Env {
			out[e.Name] = e.Value
		}
	}
	return out
}

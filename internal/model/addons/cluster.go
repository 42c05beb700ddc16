package addons

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/awscloud"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/localcloud"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/names"
)

// ControllerConfig is the configuration of kops-controller.
func (v *View) ControllerConfig() any {
	const folder = paths.Controller + "/pki"
	c := controllerconfig.Config{
		ClusterName: v.Name, Cloud: v.Cloud, ConfigBase: v.Spec.ConfigStore.Base, SecretStore: v.Spec.ConfigStore.Secrets,
		CloudIPAM: v.IPv6() && (v.Cloud == string(api.CloudAWS) || v.Cloud == string(api.CloudGCE)),
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
	switch v.Cloud {
	case string(api.CloudAWS):
		c.Server.Provider[v.Cloud] = awscloud.Controller{NodesRoles: v.machineRoles(), NodesProfiles: v.machineProfiles(), Region: v.Region}
	case string(api.CloudLocal):
		c.Server.Provider[v.Cloud] = localcloud.Controller{Machines: v.MachineRegistry()}
	case string(api.CloudGCE):
		c.Server.Provider[v.Cloud] = map[string]any{"ProjectID": v.Spec.CloudProvider.GCE.Project, "ClusterName": v.Name, "Region": v.Region}
	}
	return c
}

// machineRoles are the AWS roles of machines that may ask for certificates.
func (v *View) machineRoles() []string {
	roles := slices.Sorted(maps.Values(v.machineProfiles()))
	return slices.Compact(roles)
}

// machineProfiles are the AWS roles of machines that may ask for certificates, by the
// name of the instance profile that gives the role.
func (v *View) machineProfiles() map[string]string {
	out := map[string]string{}
	for _, g := range v.Groups {
		machines := "nodes"
		switch {
		case g.IsControlPlane(), g.IsBastion():
			continue
		case g.Spec.Role == api.RoleAPIServer:
			machines = "apiservers"
		}
		role := names.AWSMachineRole(machines, v.Name)
		profile := role
		if p := g.Spec.IAM; p != nil && p.Profile != nil {
			profile = path.Base(*p.Profile)
			if v.in.Facts != nil && v.in.Facts.AWS != nil {
				if shared, ok := v.in.Facts.AWS.InstanceProfileRole(*p.Profile); ok {
					role = shared
				}
			}
		}
		out[profile] = role
	}
	return out
}

// TerminationQueue is the address of the AWS queue that tells of machines about to end.
func (v *View) TerminationQueue() string {
	account, suffix := "", "amazonaws.com"
	if v.in.Facts != nil && v.in.Facts.AWS != nil {
		account = v.in.Facts.AWS.AccountID
		if v.in.Facts.AWS.Partition == "aws-cn" {
			suffix += ".cn"
		}
	}
	return "https://sqs." + v.Region + "." + suffix + "/" + account + "/" + names.AWSTerminationQueue(v.Name)
}

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
	if v.Cloud == string(api.CloudHetzner) {
		return g.Name
	}
	return awscloud.ScalingGroup(g.Name, string(g.Spec.Role), v.Name)
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

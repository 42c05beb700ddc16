package addons

import (
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/access"
)

// ControllerConfig returns the configuration of kops-controller.
func (v *View) ControllerConfig() (any, error) {
	const folder = paths.Controller + "/pki"
	c := controllerconfig.Config{
		ClusterName: v.Name, Cloud: v.Cloud, ConfigBase: v.Spec.ConfigStore.Base, SecretStore: v.Spec.ConfigStore.Secrets,
		CloudIPAM: v.IPv6() && v.Platform.Has.PodRanges,
		Server: controllerconfig.Server{
			Listen: ":" + strconv.Itoa(ports.Controller), KeyPath: folder + "/kops-controller.key", CertificatePath: folder + "/kops-controller.crt", CABasePath: folder,
			SigningCAs: []string{pki.KubernetesCA}, CertNames: []string{controllerconfig.CertKubelet, controllerconfig.CertKubeletServer},
			Provider: map[string]any{v.Cloud: struct{}{}},
		},
	}
	if v.KubeProxy() {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertKubeProxy)
	}
	if v.Spec.Networking.KubeRouter != nil {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertKubeRouter)
	}
	if access.CiliumEtcd(v.Spec) {
		c.Server.CertNames = append(c.Server.CertNames, controllerconfig.CertEtcdClientCilium)
		c.Server.SigningCAs = append(c.Server.SigningCAs, pki.EtcdClientsCiliumCA)
	}
	if own := v.Platform.Model.Controller; own != nil {
		part, err := own(v.input.Cluster, v.Groups, v.facts(), v.Region)
		if err != nil {
			return nil, err
		}
		c.Server.Provider[v.Cloud] = part
	}
	return c, nil
}

// Repairs returns the groups whose dead machines are replaced. A group's settings take precedence
// over the cluster's.
func (v *View) Repairs() map[string]controllerconfig.Repair {
	out := map[string]controllerconfig.Repair{}
	if !v.Platform.Has.Repair {
		return out
	}
	for _, g := range v.Groups {
		r := controllerconfig.Repair{ControlPlane: g.IsControlPlane()}
		for _, says := range []*api.RepairSpec{v.Spec.Repair, g.Spec.Repair} {
			if says == nil {
				continue
			}
			if says.After != nil {
				r.After = *says.After
			}
			if says.MaxUnhealthy != nil {
				r.MaxUnhealthy = says.MaxUnhealthy
			}
		}
		if r.After.Duration > 0 && g.Spec.Role != api.RoleBastion && g.Spec.Manager != api.ManagerKarpenter {
			out[g.Name] = r
		}
	}
	return out
}

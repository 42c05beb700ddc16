package complete

import (
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

func setControllerManager(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeControllerManager)
	fill.Value(&c.Image, p.componentImage("kube-controller-manager"))
	fill.Value(&c.LogLevel, 2)
	fill.Value(&c.ClusterName, p.Cluster.Name)
	fill.Value(&c.CloudProvider, p.componentCloud())
	fill.Ptr(&c.AttachDetachReconcileSyncPeriod, metav1.Duration{Duration: time.Minute})
	fill.Ptr(&fill.Ensure(&c.LeaderElection).LeaderElect, true)
	fill.Ptr(&c.UseServiceAccountCredentials, true)
}

func setControllerManagerNetwork(p *Pass) {
	c, n := p.Spec.KubeControllerManager, &p.Spec.Networking
	fill.Ptr(&c.ConfigureCloudRoutes, n.Kubenet != nil)
	fill.Ptr(&c.AllocateNodeCIDRs, !p.IPv6())
	if p.IPv6() {
		fill.List(&c.Controllers, "*", "-nodeipam")
	} else {
		fill.Value(&c.ClusterCIDR, n.PodCIDR)
	}
	if r, err := netip.ParsePrefix(c.ClusterCIDR); err == nil && r.Addr().Is6() {
		size := int32(r.Bits() + min((128-r.Bits())/2, 16))
		fill.Ptr(&c.NodeCIDRMaskSize, size)
	}
}

func setScheduler(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeScheduler)
	fill.Value(&c.Image, p.componentImage("kube-scheduler"))
	fill.Value(&c.LogLevel, 2)
	fill.Ptr(&fill.Ensure(&c.LeaderElection).LeaderElect, true)
}

func setKubeProxy(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeProxy)
	fill.Value(&c.Image, p.componentImage("kube-proxy"))
	fill.Value(&c.LogLevel, 2)
	fill.Quantity(&c.CPURequest, "100m")
	if r := p.Spec.KubeControllerManager.ClusterCIDR; r != "" && !p.IPv6() && p.Spec.Networking.AmazonVPC == nil {
		fill.Ptr(&c.ClusterCIDR, r)
	}
}

// CloudController returns the configuration of the cloud controller manager, with what all clouds
// have in common.
func (p *Pass) CloudController(image string) *api.CloudControllerManagerConfig {
	c := fill.Ensure(&p.Spec.CloudControllerManager)
	fill.Value(&c.Image, image)
	fill.Ptr(&fill.Ensure(&c.LeaderElection).LeaderElect, true)
	return c
}

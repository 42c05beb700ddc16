package complete

import (
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

func setControllerManager(p *pass) {
	c := ensure(&p.spec.KubeControllerManager)
	fill(&c.Image, p.componentImage("kube-controller-manager"))
	fill(&c.LogLevel, 2)
	fill(&c.ClusterName, p.cluster.Name)
	fill(&c.CloudProvider, p.componentCloud())
	fillPtr(&c.AttachDetachReconcileSyncPeriod, metav1.Duration{Duration: time.Minute})
	fillPtr(&ensure(&c.LeaderElection).LeaderElect, true)
	fillPtr(&c.UseServiceAccountCredentials, true)
}

func setControllerManagerNetwork(p *pass) {
	c, n := p.spec.KubeControllerManager, &p.spec.Networking
	fillPtr(&c.ConfigureCloudRoutes, n.Kubenet != nil)
	fillPtr(&c.AllocateNodeCIDRs, !p.ipv6() && !p.usesAliasRanges())
	if p.ipv6() {
		fillList(&c.Controllers, "*", "-nodeipam")
	} else {
		fill(&c.ClusterCIDR, n.PodCIDR)
	}
	if r, err := netip.ParsePrefix(c.ClusterCIDR); err == nil && r.Addr().Is6() {
		size := int32(r.Bits() + min((128-r.Bits())/2, 16))
		fillPtr(&c.NodeCIDRMaskSize, size)
	}
}

func setScheduler(p *pass) {
	c := ensure(&p.spec.KubeScheduler)
	fill(&c.Image, p.componentImage("kube-scheduler"))
	fill(&c.LogLevel, 2)
	fillPtr(&ensure(&c.LeaderElection).LeaderElect, true)
}

func setKubeProxy(p *pass) {
	c := ensure(&p.spec.KubeProxy)
	fill(&c.Image, p.componentImage("kube-proxy"))
	fill(&c.LogLevel, 2)
	fillQuantity(&c.CPURequest, "100m")
	if r := p.spec.KubeControllerManager.ClusterCIDR; r != "" && !p.ipv6() && p.spec.Networking.AmazonVPC == nil {
		fillPtr(&c.ClusterCIDR, r)
	}
}

// cloudController returns the configuration of the cloud's controller manager,
// with what all clouds have in common.
func (p *pass) cloudController(image string) *api.CloudControllerManagerConfig {
	c := ensure(&p.spec.CloudControllerManager)
	fill(&c.Image, image)
	fillPtr(&ensure(&c.LeaderElection).LeaderElect, true)
	return c
}

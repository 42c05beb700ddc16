package complete

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

func setStorageClasses(p *pass) {
	manage := true
	if o := p.spec.CloudProvider.Openstack; o != nil {
		if o.BlockStorage != nil && o.BlockStorage.CreateStorageClass != nil {
			manage = *o.BlockStorage.CreateStorageClass
		}
	}
	fillPtr(&ensure(&p.spec.CloudConfig).ManageStorageClasses, manage)
}

func hetznerRules() []rule {
	return []rule{{"hetzner-cloud-controller", "the version that this kops was tested with", api.CloudHetzner, setHetznerController}}
}

func setHetznerController(p *pass) {
	fillPtr(&ensure(&ensure(&p.spec.CloudControllerManager).LeaderElection).LeaderElect, false)
	c := p.cloudController("hetznercloud/hcloud-cloud-controller-manager:v1.31.0")
	fill(&c.CloudProvider, "hcloud")
	fillPtr(&c.AllowUntaggedCloud, true)
	fill(&c.ClusterCIDR, p.spec.Networking.PodCIDR)
	fillPtr(&c.AllocateNodeCIDRs, true)
	fillPtr(&c.ConfigureCloudRoutes, false)
}

func linodeRules() []rule {
	return []rule{{"linode-cloud-controller", "the version that this kops was tested with", api.CloudLinode, func(p *pass) {
		p.cloudController("linode/linode-cloud-controller-manager:v0.9.5")
	}}}
}

func openstackRules() []rule {
	return []rule{{"openstack-cloud-controller", "how kops runs the controllers of OpenStack", api.CloudOpenstack, setOpenstack}}
}

func setOpenstack(p *pass) {
	fillPtr(&ensure(&p.spec.CloudProvider.Openstack.BlockStorage).CreateStorageClass, true)
	fillPtr(&ensure(&p.spec.CloudControllerManager).NodeStatusUpdateFrequency, metav1.Duration{Duration: time.Hour})
}

func azureRules() []rule {
	return []rule{{"azure-cloud-controller", "the version that this kops was tested with", api.CloudAzure, setAzureController}}
}

func setAzureController(p *pass) {
	const version = "v1.36.2"
	c := p.cloudController("mcr.microsoft.com/oss/v2/kubernetes/azure-cloud-controller-manager:" + version)
	fill(&c.AzureNodeManagerImage, "mcr.microsoft.com/oss/v2/kubernetes/azure-cloud-node-manager:"+version)
	fill(&c.LogLevel, 2)
	fill(&c.ClusterName, p.cluster.Name)
	fill(&c.ClusterCIDR, p.spec.Networking.PodCIDR)
	routes := p.spec.Networking.Kubenet != nil || p.spec.Networking.Kindnet != nil
	fillPtr(&c.ConfigureCloudRoutes, routes)
	fillPtr(&c.AllocateNodeCIDRs, true)
}

package complete

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

// evictionHard are the limits at which a node evicts pods.
const evictionHard = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<10%,imagefs.inodesFree<5%"

// mergeControlPlaneKubelet starts the control plane's kubelet from what the user
// wrote for all kubelets.
func mergeControlPlaneKubelet(p *pass) {
	ensure(&p.spec.Kubelet)
	p.spec.ControlPlaneKubelet = overlayKubelet(p.spec.Kubelet, p.spec.ControlPlaneKubelet)
}

// overlayKubelet is overlay, but a shorter time to shut down shortens the part of it
// that critical pods have, where only the former is set anew.
func overlayKubelet(base, over *api.KubeletConfigSpec) *api.KubeletConfigSpec {
	k := overlay(base, over)
	if over == nil || over.ShutdownGracePeriod == nil || over.ShutdownGracePeriodCriticalPods != nil || k.ShutdownGracePeriodCriticalPods == nil {
		return k
	}
	if all := *k.ShutdownGracePeriod; k.ShutdownGracePeriodCriticalPods.Duration > all.Duration {
		k.ShutdownGracePeriodCriticalPods = &all
	}
	return k
}

// kubelets are the settings for workers and for control planes.
func (p *pass) kubelets() []*api.KubeletConfigSpec {
	return []*api.KubeletConfigSpec{p.spec.Kubelet, p.spec.ControlPlaneKubelet}
}

func isolateControlPlane(p *pass) {
	if isTrue(p.spec.Networking.IsolateControlPlane) {
		fillPtr(&p.spec.ControlPlaneKubelet.EnableDebuggingHandlers, false)
		fill(&p.spec.ControlPlaneKubelet.HairpinMode, "none")
	}
}

func setKubelet(p *pass) {
	for _, k := range p.kubelets() {
		fillPtr(&k.EnableDebuggingHandlers, true)
		fill(&k.PodManifestPath, "/etc/kubernetes/manifests")
		fillPtr(&k.LogLevel, 2)
		fill(&k.ClusterDomain, p.spec.ClusterDNSDomain)
		fill(&k.KubeconfigPath, "/var/lib/kubelet/kubeconfig")
		fill(&k.CgroupRoot, "/")
		fill(&k.CgroupDriver, "systemd")
		fillPtr(&k.ProtectKernelDefaults, true)
		fillPtr(&k.EvictionHard, evictionHard)
	}
}

func setKubeletDNS(p *pass) {
	address := p.spec.KubeDNS.ServerIP
	if local := p.spec.KubeDNS.NodeLocalDNS; local != nil && isTrue(local.Enabled) {
		address = local.LocalIP
	}
	for _, k := range p.kubelets() {
		fill(&k.ClusterDNS, address)
	}
}

func setKubeletCloud(p *pass) {
	for _, k := range p.kubelets() {
		fill(&k.CloudProvider, p.componentCloud())
		if p.cloud == api.CloudGCE {
			fill(&k.HairpinMode, "promiscuous-bridge")
		}
	}
}

func setKubeletShutdown(p *pass) {
	all, critical := 30*time.Second, 10*time.Second
	if p.spec.Networking.AmazonVPC != nil { // its node agent must outlive the pods
		all, critical = 0, 0
	}
	for _, k := range p.kubelets() {
		fillPtr(&k.ShutdownGracePeriod, metav1.Duration{Duration: all})
		fillPtr(&k.ShutdownGracePeriodCriticalPods, metav1.Duration{Duration: min(critical, k.ShutdownGracePeriod.Duration)})
	}
}

func setImageVolume(p *pass) {
	if !p.olderThan(36) {
		return
	}
	k := p.spec.ControlPlaneKubelet
	if k.FeatureGates == nil {
		k.FeatureGates = map[string]string{}
	}
	if _, ok := k.FeatureGates["ImageVolume"]; !ok {
		k.FeatureGates["ImageVolume"] = "true"
	}
}

func setRegisterSchedulable(p *pass) {
	if p.olderThan(34) {
		for _, k := range p.kubelets() {
			fillPtr(&k.RegisterSchedulable, true)
		}
	}
}

func setVolumePlugins(p *pass) {
	for _, g := range p.groups {
		if strings.Contains(g.Spec.Image, "flatcar") {
			for _, k := range p.kubelets() {
				fill(&k.VolumePluginDirectory, "/var/lib/kubelet/volumeplugins/")
			}
		}
	}
}

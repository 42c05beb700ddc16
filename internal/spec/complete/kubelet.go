package complete

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// evictionHard is the thresholds at which a node evicts pods.
const evictionHard = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<10%,imagefs.inodesFree<5%"

// mergeControlPlaneKubelet bases the control plane's kubelet on the user's settings for all
// kubelets.
func mergeControlPlaneKubelet(p *Pass) {
	fill.Ensure(&p.Spec.Kubelet)
	p.Spec.ControlPlaneKubelet = overlayKubelet(p.Spec.Kubelet, p.Spec.ControlPlaneKubelet)
}

// overlayKubelet works like overlay, except that a shorter shutdown period also shortens the part
// for critical pods if only the whole is overridden.
func overlayKubelet(base, over *api.KubeletConfigSpec) *api.KubeletConfigSpec {
	k := fill.Overlay(base, over)
	if over == nil || over.ShutdownGracePeriod == nil || over.ShutdownGracePeriodCriticalPods != nil || k.ShutdownGracePeriodCriticalPods == nil {
		return k
	}
	if all := *k.ShutdownGracePeriod; k.ShutdownGracePeriodCriticalPods.Duration > all.Duration {
		k.ShutdownGracePeriodCriticalPods = &all
	}
	return k
}

// kubelets returns the settings for workers and for control planes.
func (p *Pass) kubelets() []*api.KubeletConfigSpec {
	return []*api.KubeletConfigSpec{p.Spec.Kubelet, p.Spec.ControlPlaneKubelet}
}

func isolateControlPlane(p *Pass) {
	if isTrue(p.Spec.Networking.IsolateControlPlane) {
		fill.Ptr(&p.Spec.ControlPlaneKubelet.EnableDebuggingHandlers, false)
		fill.Value(&p.Spec.ControlPlaneKubelet.HairpinMode, "none")
	}
}

func setKubelet(p *Pass) {
	for _, k := range p.kubelets() {
		fill.Ptr(&k.EnableDebuggingHandlers, true)
		fill.Value(&k.PodManifestPath, "/etc/kubernetes/manifests")
		fill.Ptr(&k.LogLevel, 2)
		fill.Value(&k.ClusterDomain, p.Spec.ClusterDNSDomain)
		fill.Value(&k.KubeconfigPath, "/var/lib/kubelet/kubeconfig")
		fill.Value(&k.CgroupRoot, "/")
		fill.Value(&k.CgroupDriver, "systemd")
		fill.Ptr(&k.ProtectKernelDefaults, true)
		fill.Ptr(&k.EvictionHard, evictionHard)
	}
}

func setKubeletDNS(p *Pass) {
	address := p.Spec.KubeDNS.ServerIP
	if local := p.Spec.KubeDNS.NodeLocalDNS; local != nil && isTrue(local.Enabled) {
		address = local.LocalIP
	}
	for _, k := range p.kubelets() {
		fill.Value(&k.ClusterDNS, address)
	}
}

func setKubeletCloud(p *Pass) {
	for _, k := range p.kubelets() {
		fill.Value(&k.CloudProvider, p.componentCloud())
	}
}

func setKubeletShutdown(p *Pass) {
	all, critical := 30*time.Second, 10*time.Second
	if p.Spec.Networking.AmazonVPC != nil { // its node agent must outlive the pods
		all, critical = 0, 0
	}
	for _, k := range p.kubelets() {
		fill.Ptr(&k.ShutdownGracePeriod, metav1.Duration{Duration: all})
		fill.Ptr(&k.ShutdownGracePeriodCriticalPods, metav1.Duration{Duration: min(critical, k.ShutdownGracePeriod.Duration)})
	}
}

func setImageVolume(p *Pass) {
	if !p.OlderThan(36) {
		return
	}
	k := p.Spec.ControlPlaneKubelet
	if k.FeatureGates == nil {
		k.FeatureGates = map[string]string{}
	}
	if _, ok := k.FeatureGates["ImageVolume"]; !ok {
		k.FeatureGates["ImageVolume"] = "true"
	}
}

func setRegisterSchedulable(p *Pass) {
	if p.OlderThan(34) {
		for _, k := range p.kubelets() {
			fill.Ptr(&k.RegisterSchedulable, true)
		}
	}
}

func setVolumePlugins(p *Pass) {
	for _, g := range p.groups {
		if strings.Contains(g.Spec.Image, "flatcar") {
			for _, k := range p.kubelets() {
				fill.Value(&k.VolumePluginDirectory, "/var/lib/kubelet/volumeplugins/")
			}
		}
	}
}

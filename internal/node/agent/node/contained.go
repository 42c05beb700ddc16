package node

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

// ContainerAdaptations lists where Build deviates from the configuration because the machine is
// a container, as "FIELD: VALUE, WHY". It is empty on every other machine.
func ContainerAdaptations(in Input) []string {
	_, changes := adaptToContainer(in)
	return changes
}

// adaptToContainer returns the input with a configuration that works in a container, and the
// differences. The configuration on the machine's disk stays as it is, because its
// digest is known. Settings that the user chose are kept if they can work.
func adaptToContainer(in Input) (Input, []string) {
	if !in.Host.Contained {
		return in, nil
	}
	var changes []string
	config := *in.Config
	k := api.KubeletConfigSpec{}
	if config.KubeletConfig != nil {
		k = *config.KubeletConfig
	}
	record := func(text string) { changes = append(changes, text) }
	if in.Host.CgroupV1 && k.CgroupDriver != "cgroupfs" {
		k.CgroupDriver = "cgroupfs"
		record("kubelet.cgroupDriver: cgroupfs, because systemd in a container cannot manage control groups of version 1")
	}
	if k.ProtectKernelDefaults == nil || *k.ProtectKernelDefaults {
		k.ProtectKernelDefaults = new(bool)
		record("kubelet.protectKernelDefaults: false, because the kernel belongs to the host")
	}
	if k.FailSwapOn == nil {
		k.FailSwapOn = new(bool)
		record("kubelet.failSwapOn: false, because the swap belongs to the host")
	}
	if t := k.ShutdownGracePeriod; in.Host.LacksLogind && t != nil && t.Duration > 0 {
		k.ShutdownGracePeriod, k.ShutdownGracePeriodCriticalPods = &metav1.Duration{}, &metav1.Duration{}
		record("kubelet.shutdownGracePeriod: 0s, because no systemd-logind announces the machine's shutdown")
	}
	config.KubeletConfig = &k
	if config.KubeProxy != nil {
		p := *config.KubeProxy
		p.ConntrackMaxPerCore, p.ConntrackMin = new(int32), new(int32)
		config.KubeProxy = &p
		record("kubeProxy.conntrackMaxPerCore: 0, because the host limits the connection tracking table")
	}
	if !config.NTPUnmanaged {
		config.NTPUnmanaged = true
		record("ntp.managed: false, because the clock belongs to the host")
	}
	if config.UpdatePolicy != api.UpdateExternal && in.Host.Like == "debian" {
		record("updatePolicy: unattended-upgrades is not installed, because containers are recreated from their image")
	}
	record("sysctlParameters: of kops' defaults only those for the network, because the kernel belongs to the host")
	record("oomScoreAdj: 0 for all services, because a container may not protect its processes from the host's OOM killer")
	in.Config = &config
	return in, changes
}

// ownParameters drops the kernel parameters that belong to a container's host. Network parameters
// belong to the container, except those that the kernel keeps once for all network namespaces: it
// shows them only in the initial one, or makes them writable only there
// (Documentation/networking/ip-sysctl.rst, net/core/sysctl_net_core.c).
func ownParameters(all []string) []string {
	return slices.DeleteFunc(all, func(line string) bool {
		if strings.HasPrefix(line, "#") {
			return false
		}
		name, _, _ := strings.Cut(line, "=")
		return !strings.HasPrefix(name, "net.") || strings.HasPrefix(name, "net.ipv4.neigh.default.gc_thresh") ||
			slices.Contains([]string{"net.core.rmem_max", "net.core.wmem_max", "net.core.netdev_max_backlog"}, name)
	})
}

package node

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

// Adapted tells what Build makes otherwise than the configuration says, because the
// machine is a container: "FIELD: VALUE, WHY". It is empty on every other machine.
func Adapted(in Input) []string {
	_, told := contained(in)
	return told
}

// contained returns the input with a configuration that works in a container, and
// what differs. The configuration on the machine's disk stays as it is: its digest is
// known. Of settings that can work, those that somebody wrote stay.
func contained(in Input) (Input, []string) {
	if !in.Host.Contained {
		return in, nil
	}
	var told []string
	config := *in.Config
	k := api.KubeletConfigSpec{}
	if config.KubeletConfig != nil {
		k = *config.KubeletConfig
	}
	tell := func(text string) { told = append(told, text) }
	if in.Host.CgroupV1 && k.CgroupDriver != "cgroupfs" {
		k.CgroupDriver = "cgroupfs"
		tell("kubelet.cgroupDriver: cgroupfs, as systemd in a container has no control groups of version 1 to give")
	}
	if k.ProtectKernelDefaults == nil || *k.ProtectKernelDefaults {
		k.ProtectKernelDefaults = new(bool)
		tell("kubelet.protectKernelDefaults: false, as the kernel is the host's")
	}
	if k.FailSwapOn == nil {
		k.FailSwapOn = new(bool)
		tell("kubelet.failSwapOn: false, as the swap is the host's")
	}
	if t := k.ShutdownGracePeriod; in.Host.LacksLogind && t != nil && t.Duration > 0 {
		k.ShutdownGracePeriod, k.ShutdownGracePeriodCriticalPods = &metav1.Duration{}, &metav1.Duration{}
		tell("kubelet.shutdownGracePeriod: 0s, as no systemd-logind runs that would tell of the machine's end")
	}
	config.KubeletConfig = &k
	if config.KubeProxy != nil {
		p := *config.KubeProxy
		p.ConntrackMaxPerCore, p.ConntrackMin = new(int32), new(int32)
		config.KubeProxy = &p
		tell("kubeProxy.conntrackMaxPerCore: 0, as the bounds of the table of connections are the host's")
	}
	if !config.NTPUnmanaged {
		config.NTPUnmanaged = true
		tell("ntp.managed: false, as the clock is the host's")
	}
	if config.UpdatePolicy != api.UpdateExternal && in.Host.Like == "debian" {
		tell("updatePolicy: unattended-upgrades is not installed, because containers are recreated from their image")
	}
	tell("sysctlParameters: of kops' own only those of the network, as the kernel is the host's")
	tell("oomScoreAdj: 0 for all services, as a container may not spare its processes before the host's")
	in.Config = &config
	return in, told
}

// ownParameters drops the kernel parameters that belong to the host of a container. Network
// parameters are the container's, except the ones that its kernel keeps once for all networks: it
// shows them nowhere else, or does not let others write them
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

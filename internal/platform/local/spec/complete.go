package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// completion returns the rules that complete the spec of a cluster on this host. They run before
// those of the components, whose defaults are for machines with a kernel of their own.
func completion() complete.Rules {
	return complete.Rules{
		Before: []complete.Rule{
			{Name: "local-api-address", Why: "clients reach the API at the host's address in the cluster's network", Do: setAPI},
			{Name: "local-mirror", Why: "the host serves files and images from its bundle", Do: setMirror},
			{Name: "local-kubelet", Why: "machines share the kernel of the host", Do: setKubelet},
			{Name: "local-hardened", Why: "the host is shared with other programs, so the control plane follows the CIS benchmark", Do: setHardening},
			{Name: "local-memory", Why: "all machines share the memory of one host", Do: setMemory},
			{Name: "local-etcd", Why: "members of etcd on one host have no network delay, and elect a new leader sooner", Do: setEtcd},
			{Name: "local-repair", Why: "machines on this host cost nothing and are not watched", Do: setRepair},
			{Name: "local-routes", Why: "kops-controller keeps the routes between machines", Do: setRoutes},
			{Name: "local-cilium", Why: "machines of this host are in one segment, and only they have routes to pods", Do: setCilium},
		},
	}
}

// HostAddress returns the host's address in the cluster's network, which is the first.
// It returns false if the spec has no network.
func HostAddress(c *api.Cluster) (netip.Addr, bool) {
	network, err := netip.ParsePrefix(c.Spec.Networking.NetworkCIDR)
	if err != nil {
		return netip.Addr{}, false // validation reports it
	}
	return network.Masked().Addr().Next(), true
}

func setAPI(p *complete.Pass) {
	fill.Ensure(&p.Spec.API.LoadBalancer)
	if a, ok := HostAddress(p.Cluster); ok && !slices.Contains(p.Spec.API.AdditionalSANs, a.String()) {
		p.Spec.API.AdditionalSANs = append(p.Spec.API.AdditionalSANs, a.String())
	}
}

func setMirror(p *complete.Pass) {
	a, ok := HostAddress(p.Cluster)
	if !ok {
		return
	}
	mirror := fmt.Sprintf("http://%s:%d", a, localcloud.MirrorPort)
	fill.Ptr(&fill.Ensure(&p.Spec.Assets).FileRepository, mirror)
	if c := fill.Ensure(&p.Spec.Containerd); len(c.RegistryMirrors) == 0 {
		c.RegistryMirrors = map[string][]string{"*": {mirror}}
	}
}

func setKubelet(p *complete.Pass) {
	for _, k := range []**api.KubeletConfigSpec{&p.Spec.Kubelet, &p.Spec.ControlPlaneKubelet} {
		k := fill.Ensure(k)
		fill.Value(&k.CgroupDriver, "cgroupfs") // hosts may have control groups of version 1, which systemd does not share
		fill.Ptr(&k.FailSwapOn, false)
		fill.Ptr(&k.ProtectKernelDefaults, false)
		// Images come from the host itself.
		fill.Ptr(&k.SerializeImagePulls, false)
		fill.Ptr(&k.RegistryPullQPS, 0)
		// A machine has no power button.
		fill.Ptr(&k.ShutdownGracePeriod, metav1.Duration{})
		fill.Ptr(&k.ShutdownGracePeriodCriticalPods, metav1.Duration{})
	}
}

// setMemory makes the largest process of a cluster collect garbage sooner.
func setMemory(p *complete.Pass) {
	c := fill.Ensure(&p.Spec.KubeAPIServer)
	if !slices.ContainsFunc(c.Env, func(e api.ContainerEnvVar) bool { return e.Name == "GOGC" }) {
		c.Env = append(c.Env, api.ContainerEnvVar{Name: "GOGC", Value: "50"})
	}
}

// setEtcd makes members replace a lost leader after 0.4 to 0.8 s instead of 1 to 2:
// etcd's own intervals, 100 ms and 1 s, are for members in several places. The
// election timeout must be at least five heartbeats.
func setEtcd(p *complete.Pass) {
	for i := range p.Spec.EtcdClusters {
		m := fill.Ensure(&p.Spec.EtcdClusters[i].Manager)
		for _, e := range []api.EnvVar{{Name: "ETCD_ELECTION_TIMEOUT", Value: "400"}, {Name: "ETCD_HEARTBEAT_INTERVAL", Value: "50"}} {
			if !slices.ContainsFunc(m.Env, func(have api.EnvVar) bool { return have.Name == e.Name }) {
				m.Env = append(m.Env, e)
			}
		}
	}
}

func setRoutes(p *complete.Pass) {
	fill.Ptr(&fill.Ensure(&p.Spec.KubeControllerManager).ConfigureCloudRoutes, false)
}

// setCilium sets the routes of machines in one segment.
func setCilium(p *complete.Pass) {
	c := p.Spec.Networking.Cilium
	if c == nil || c.Tunnel != "disabled" {
		return
	}
	c.AutoDirectNodeRoutes = true // nobody else has routes to pods
	if c.ExtraConfig == nil {
		c.ExtraConfig = map[string]string{}
	}
	if _, set := c.ExtraConfig[nativeRange]; !set {
		c.ExtraConfig[nativeRange] = p.Spec.Networking.PodCIDR
	}
}

// nativeRange is the field of Cilium's configuration with the range of pods to which nodes have routes.
const nativeRange = "ipv4-native-routing-cidr"

// setHardening sets the hardening of every cluster of this host. All pods belong to the cluster's
// owner, so settings that give pods access to the machine cause a warning, not an error.
func setHardening(p *complete.Pass) { complete.Harden(p.Spec, complete.Nothing) }

// repairAfter is how long a machine of this host must be dead before it is replaced.
const repairAfter = 5 * time.Minute

func setRepair(p *complete.Pass) {
	r := fill.Ensure(&p.Spec.Repair)
	fill.Ptr(&r.After, metav1.Duration{Duration: repairAfter})
	fill.Ptr(&r.MaxUnhealthy, intstr.FromString("40%"))
}

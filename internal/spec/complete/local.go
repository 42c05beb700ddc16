package complete

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/localcloud"
)

// localNetwork is the range of a local cluster whose spec has none; new
// clusters get one that the host does not use.
const localNetwork = "10.77.0.0/24"

// localRules come before those of the components, whose defaults are for machines
// with a kernel of their own.
func localRules() []rule {
	return []rule{
		{"local-api-address", "clients reach the API under the host's address in the cluster's network", api.CloudLocal, setLocalAPI},
		{"local-mirror", "the host serves files and images from its bundle", api.CloudLocal, setLocalMirror},
		{"local-kubelet", "machines share the kernel of the host", api.CloudLocal, setLocalKubelet},
		{"local-hardened", "the host is others' too: the control plane follows the CIS benchmark", api.CloudLocal, setLocalHardening},
		{"local-memory", "all machines take from the memory of one host", api.CloudLocal, setLocalMemory},
		{"local-etcd", "members of etcd on one host hear each other at once, and elect another leader sooner", api.CloudLocal, setLocalEtcd},
		{"local-routes", "kops-controller keeps the routes between machines", api.CloudLocal, setLocalRoutes},
	}
}

// HostAddress is the host's address in the network of one of its clusters: the first.
// There is none where the cluster's spec has no network.
func HostAddress(c *api.Cluster) (netip.Addr, bool) {
	network, err := netip.ParsePrefix(c.Spec.Networking.NetworkCIDR)
	if err != nil {
		return netip.Addr{}, false // validation says so
	}
	return nth(network, 1), true
}

func setLocalAPI(p *pass) {
	ensure(&p.spec.API.LoadBalancer)
	if a, ok := HostAddress(p.cluster); ok && !slices.Contains(p.spec.API.AdditionalSANs, a.String()) {
		p.spec.API.AdditionalSANs = append(p.spec.API.AdditionalSANs, a.String())
	}
}

func setLocalMirror(p *pass) {
	a, ok := HostAddress(p.cluster)
	if !ok {
		return
	}
	mirror := fmt.Sprintf("http://%s:%d", a, localcloud.MirrorPort)
	fillPtr(&ensure(&p.spec.Assets).FileRepository, mirror)
	if c := ensure(&p.spec.Containerd); len(c.RegistryMirrors) == 0 {
		c.RegistryMirrors = map[string][]string{"*": {mirror}}
	}
}

func setLocalKubelet(p *pass) {
	for _, k := range []**api.KubeletConfigSpec{&p.spec.Kubelet, &p.spec.ControlPlaneKubelet} {
		k := ensure(k)
		fill(&k.CgroupDriver, "cgroupfs") // hosts may have control groups of version 1, which systemd does not share
		fillPtr(&k.FailSwapOn, false)
		fillPtr(&k.ProtectKernelDefaults, false)
		// Images come from the host itself.
		fillPtr(&k.SerializeImagePulls, false)
		fillPtr(&k.RegistryPullQPS, 0)
		// A machine has no power key that somebody could press.
		fillPtr(&k.ShutdownGracePeriod, metav1.Duration{})
		fillPtr(&k.ShutdownGracePeriodCriticalPods, metav1.Duration{})
	}
}

// setLocalMemory has the largest process of a cluster collect its garbage sooner.
func setLocalMemory(p *pass) {
	c := ensure(&p.spec.KubeAPIServer)
	if !slices.ContainsFunc(c.Env, func(e api.ContainerEnvVar) bool { return e.Name == "GOGC" }) {
		c.Env = append(c.Env, api.ContainerEnvVar{Name: "GOGC", Value: "50"})
	}
}

// setLocalEtcd has a leader that is gone replaced after 0.4 to 0.8 s instead of 1 to 2:
// etcd's own intervals, 100 ms and 1 s, are for members in several places. The
// leader's period of office must be five heartbeats at least.
func setLocalEtcd(p *pass) {
	for i := range p.spec.EtcdClusters {
		m := ensure(&p.spec.EtcdClusters[i].Manager)
		for _, e := range []api.EnvVar{{Name: "ETCD_ELECTION_TIMEOUT", Value: "400"}, {Name: "ETCD_HEARTBEAT_INTERVAL", Value: "50"}} {
			if !slices.ContainsFunc(m.Env, func(have api.EnvVar) bool { return have.Name == e.Name }) {
				m.Env = append(m.Env, e)
			}
		}
	}
}

func setLocalRoutes(p *pass) {
	fillPtr(&ensure(&p.spec.KubeControllerManager).ConfigureCloudRoutes, false)
}

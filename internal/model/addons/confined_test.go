package addons_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/model/addons"
)

// unconfined lists the containers (per file of an add-on) that keep more rights than
// TestContainersAreConfined permits, and why. The rights of network plugins are not listed
// individually: they change the machine's network.
var unconfined = map[string]string{
	"aws-ebs-csi-driver.addons.k8s.io/ebs-csi-node/ebs-plugin":                        "formats and mounts the machine's disks",
	"node-problem-detector.addons.k8s.io/node-problem-detector/node-problem-detector": "reads the kernel's log of the machine",
	"nvidia.addons.k8s.io/dcgm-exporter/dcgm-exporter":                                "reads the processors' counters, and its library writes files",
	"nvidia.addons.k8s.io/nvidia-device-plugin-daemonset/nvidia-device-plugin-ctr":    "the runtime adds the driver's files to its root",
	"nodelocaldns.addons.k8s.io/node-local-dns/node-cache":                            "sets an address and firewall rules of the machine, and writes its configuration into its root",
}

// missingConfinement returns the missing parts of a container's confinement.
func missingConfinement(pod corev1.PodSpec, c corev1.Container, local bool) (out []string) {
	s := c.SecurityContext
	if s == nil {
		return []string{"securityContext"}
	}
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		out = append(out, "allowPrivilegeEscalation: false")
	}
	if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		out = append(out, "readOnlyRootFilesystem: true")
	}
	if s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		out = append(out, "capabilities.drop: [ALL]")
	}
	profile := s.SeccompProfile
	if profile == nil && pod.SecurityContext != nil {
		profile = pod.SecurityContext.SeccompProfile
	}
	if !local && (profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault) {
		out = append(out, "seccompProfile.type: RuntimeDefault")
	}
	return out
}

// workloads calls f for the pods of each Deployment and DaemonSet.
func workloads(t *testing.T, r *addons.Result, f func(addon, workload string, pod corev1.PodSpec)) {
	t.Helper()
	for _, file := range r.Files {
		for _, o := range objectsOf(t, file) {
			if o["kind"] == "Deployment" || o["kind"] == "DaemonSet" {
				w := into[appsv1.Deployment](t, o) // both have their pods in the same place
				f(file.Name, w.Name, w.Spec.Template.Spec)
			}
		}
	}
}

// Containers of add-ons have only the rights that they need: no privilege escalation, a read-only
// root, only the capabilities that they list, and the runtime's default seccomp profile.
func TestContainersAreConfined(t *testing.T) {
	used := map[string]bool{}
	check := func(name string, r *addons.Result, local bool) {
		workloads(t, r, func(addon, workload string, pod corev1.PodSpec) {
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				key := addon + "/" + workload + "/" + c.Name
				missing := missingConfinement(pod, c, local)
				switch {
				case len(missing) == 0:
				case unconfined[key] != "" || networkPlugin(addon):
					used[key] = true
				default:
					t.Errorf("%s: %s lacks %q", name, key, missing)
				}
			}
		})
	}
	for name, change := range variants() {
		check(name, build(t, cluster(t, change)), false)
	}
	check("local", build(t, local(t, func(s *api.ClusterSpec) { s.MetricsServer = &api.MetricsServerConfig{Enabled: ptr(true)} })), true)
	for key := range unconfined {
		if !used[key] {
			t.Errorf("%s needs no exception: it is confined, or is not there", key)
		}
	}
}

// networkPlugin reports whether an add-on sets up the machines' network.
func networkPlugin(addon string) bool { return strings.HasPrefix(addon, "networking.") }

// A manifest is data, and machines have accounts with the same numbers.
func TestContainersRunAsTheAccountsOfMachines(t *testing.T) {
	in := cluster(t, func(s *api.ClusterSpec) {
		s.Authentication = &api.AuthenticationSpec{AWS: &api.AWSAuthenticationSpec{}}
	})
	want := map[string]int64{"kops-controller": users.Controller, "aws-iam-authenticator": users.Authenticator}
	workloads(t, build(t, in), func(_, workload string, pod corev1.PodSpec) {
		for _, c := range pod.Containers {
			if user, ok := want[workload]; ok && c.SecurityContext.RunAsUser != nil && *c.SecurityContext.RunAsUser == user {
				delete(want, workload)
			}
		}
	})
	if len(want) > 0 {
		t.Errorf("none of these runs as its account: %v", want)
	}
}

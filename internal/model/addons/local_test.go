package addons_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/channels"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/kubetest"
)

// local completes a cluster on this host with changes.
func local(t *testing.T, change func(*api.ClusterSpec)) addons.Input {
	t.Helper()
	return changed(t, goldentest.Read(t, "testdata", "local.yaml"), change)
}

func TestALocalClusterNeedsNothingOfElsewhere(t *testing.T) {
	r := build(t, local(t, func(*api.ClusterSpec) {}))
	if len(r.Findings) > 0 {
		t.Errorf("findings %v", r.Findings)
	}
	var names, images []string
	for _, f := range r.Files {
		names = append(names, f.Name)
		for _, i := range f.Images {
			images = append(images, i.Public)
		}
		for _, other := range []string{"aws", "amazon", "gce", "google", "azure", "openstack", "hetzner"} {
			if strings.Contains(strings.ToLower(string(f.Content)), other) {
				t.Errorf("%s speaks of %s", f.Path, other)
			}
		}
	}
	if want := []string{"coredns.addons.k8s.io", "dns-controller.addons.k8s.io", "kops-controller.addons.k8s.io", "kubelet-api.rbac.addons.k8s.io",
		"limit-range.addons.k8s.io", "networking.kops-routes"}; !slices.Equal(names, want) {
		t.Errorf("add-ons %v", names)
	}
	slices.Sort(images)
	if want := []string{"kops.internal/kops-controller:1.37.0", "registry.k8s.io/coredns/coredns:v1.14.3"}; !slices.Equal(slices.Compact(images), want) {
		t.Errorf("images %v", images)
	}
	if dns := object[appsv1.Deployment](t, r, "coredns.addons.k8s.io", "Deployment", "coredns"); dns.Spec.Replicas == nil || *dns.Spec.Replicas != 2 {
		t.Errorf("CoreDNS %+v", dns.Spec)
	}
}

// volumes returns the machine's folders that a pod can see, by their mount paths.
func volumes(p corev1.PodSpec) map[string]string {
	out := map[string]string{}
	for _, m := range p.Containers[0].VolumeMounts {
		for _, v := range p.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				out[m.MountPath] = v.HostPath.Path
				if m.ReadOnly {
					out[m.MountPath] += ":ro"
				}
			}
		}
	}
	return out
}

func TestKopsControllerReadsFolders(t *testing.T) {
	const name, pki = "kops-controller.addons.k8s.io", "/etc/kubernetes/kops-controller/pki/"
	for what, tt := range map[string]struct {
		base, secrets string
		folders       []string
	}{
		"one folder":             {"file:///srv/kops/demo.k8s.local", "", []string{"/srv/kops/demo.k8s.local"}},
		"secrets below it":       {"file:///srv/kops/demo.k8s.local/", "file:///srv/kops/demo.k8s.local/secrets", []string{"/srv/kops/demo.k8s.local"}},
		"secrets elsewhere":      {"file:///srv/kops/demo.k8s.local", "file:///srv/kops/demo.k8s.local-secrets", []string{"/srv/kops/demo.k8s.local", "/srv/kops/demo.k8s.local-secrets"}},
		"a path":                 {"/srv/a b", "", []string{"/srv/a b"}},
		"a bucket":               {"s3://bucket/demo.k8s.local", "", nil},
		"a bucket, and a folder": {"s3://bucket/demo.k8s.local", "file:///srv/secrets", []string{"/srv/secrets"}},
	} {
		t.Run(what, func(t *testing.T) {
			r := build(t, local(t, func(s *api.ClusterSpec) { s.ConfigStore = api.ConfigStoreSpec{Base: tt.base, Secrets: tt.secrets} }))
			pod := object[appsv1.DaemonSet](t, r, name, "DaemonSet", "kops-controller").Spec.Template.Spec
			want := map[string]string{pki: "/etc/kubernetes/kops-controller/:ro", "/etc/ssl/certs": "/etc/kubernetes/trust:ro", "/etc/kops/machines": "/etc/kops/machines:ro", "/etc/kops/requests": "/etc/kops/requests"}
			for _, f := range tt.folders {
				want[f] = f + ":ro"
			}
			if got := volumes(pod); !maps.Equal(got, want) {
				t.Errorf("sees %v, not %v", got, want)
			}
			security := pod.Containers[0].SecurityContext
			if root := *security.RunAsUser == 0; root != (len(tt.folders) > 0) {
				t.Errorf("runs as %d", *security.RunAsUser)
			} else if root && (security.Capabilities == nil || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(security.Capabilities.Add, []corev1.Capability{"DAC_READ_SEARCH"})) {
				t.Errorf("may do %+v", security)
			}
			if security.SeccompProfile != nil {
				t.Error("it needs seccomp, which the runc of a host may lack")
			}
		})
	}
	r := build(t, local(t, func(*api.ClusterSpec) {}))
	conf, err := controllerconfig.Parse([]byte(object[corev1.ConfigMap](t, r, name, "ConfigMap", "kops-controller").Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	var own localcloud.Controller
	if err := conf.Section(&own); err != nil || conf.Cloud != "local" || own.Machines != "/etc/kops/machines" {
		t.Errorf("configuration %+v, %v", conf, err)
	}
}

func TestThePodNetworkNeedsNeitherServicesNorDNS(t *testing.T) {
	r := build(t, local(t, func(*api.ClusterSpec) {}))
	pod := object[appsv1.DaemonSet](t, r, "networking.kops-routes", "DaemonSet", "kops-routes").Spec.Template.Spec
	env := map[string]string{}
	for _, e := range pod.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["KUBERNETES_SERVICE_HOST"] != "api.internal.demo.k8s.local" || env["KUBERNETES_SERVICE_PORT"] != "443" {
		t.Errorf("reaches the API by %v", env)
	}
	if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSDefault || pod.PriorityClassName != "system-node-critical" || len(pod.Tolerations) != 1 || pod.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("%+v", pod)
	}
	other := build(t, local(t, func(s *api.ClusterSpec) {
		s.Networking.Kubenet, s.Networking.CNI = nil, &api.CNINetworkingSpec{}
	}))
	if slices.ContainsFunc(other.Files, func(f addons.File) bool { return f.Name == "networking.kops-routes" }) {
		t.Error("a cluster with a network of the user's has ours, too")
	}
}

// TestTheAPIServerTakesTheManifests applies every add-on of two clusters.
func TestTheAPIServerTakesTheManifests(t *testing.T) {
	config := kubetest.Start(t)
	inRange := func(s *api.ClusterSpec) { s.KubeDNS = &api.KubeDNSConfig{ServerIP: "10.96.0.10"} } // in the server's service range
	for cloud, in := range map[string]addons.Input{"local": local(t, inRange), "aws": cluster(t, inRange)} {
		t.Run(cloud, func(t *testing.T) {
			r := build(t, in)
			files := map[string][]byte{"/bootstrap-channel.yaml": r.Channel}
			for _, f := range r.Files {
				files["/"+f.Path] = f.Content
			}
			a, err := channels.NewApplier(config)
			if err != nil {
				t.Fatal(err)
			}
			a.Clock, a.Log = bootstrap.SystemClock(), slog.New(slog.DiscardHandler)
			a.Fetch = func(_ context.Context, url string) ([]byte, error) {
				if text, ok := files[url]; ok {
					return text, nil
				}
				return nil, fault.New(fault.Gone, "no file %s", url)
			}
			err = a.Pass(t.Context(), []string{"/bootstrap-channel.yaml"})
			for line := range strings.Lines(errorText(err)) { // nothing runs the pods, so workloads do not work
				if line = strings.TrimSpace(line); !strings.HasSuffix(line, ": its controller has not seen the change yet") {
					t.Error(line)
				}
			}
			if _, err := a.Client.Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")).Namespace("kube-system").Get(t.Context(), "kops-controller", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

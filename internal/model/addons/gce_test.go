package addons_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/test/goldentest"
)

// onGCE completes a cluster on GCE with changes.
func onGCE(t *testing.T, change func(*api.ClusterSpec)) addons.Input {
	t.Helper()
	return changed(t, goldentest.Read(t, "testdata", "gce.yaml"), change)
}

// variantsOnGCE returns clusters that together use what add-ons have for GCE.
func variantsOnGCE() map[string]func(*api.ClusterSpec) {
	return map[string]func(*api.ClusterSpec){
		"on GCE": func(*api.ClusterSpec) {},
		"on GCE with addresses of the network": func(s *api.ClusterSpec) {
			s.Networking.Kubenet, s.Networking.GCP = nil, &api.GCPNetworkingSpec{}
			s.Networking.NonMasqueradeCIDR = ""
		},
		"on GCE with options": func(s *api.ClusterSpec) {
			s.ExternalDNS = &api.ExternalDNSConfig{Provider: api.ExternalDNSProviderExternalDNS}
			s.ClusterAutoscaler = &api.ClusterAutoscalerConfig{Enabled: ptr(true)}
			s.CertManager = &api.CertManagerConfig{Enabled: ptr(true)}
			s.SnapshotController = &api.SnapshotControllerConfig{Enabled: ptr(true)}
			s.CloudProvider.GCE.PDCSIDriver = &api.PDCSIDriver{Version: ptr("v1.28.1"), DefaultStorageClassName: ptr("ssd-csi")}
		},
		"on GCE without the driver of disks": func(s *api.ClusterSpec) {
			s.CloudProvider.GCE.PDCSIDriver = &api.PDCSIDriver{Enabled: ptr(false)}
		},
	}
}

func gceOf(t *testing.T, name string) *addons.Result {
	t.Helper()
	return build(t, onGCE(t, variantsOnGCE()[name]))
}

// arguments returns the arguments of a container.
func arguments(t *testing.T, pod corev1.PodTemplateSpec, container string) []string {
	t.Helper()
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return slices.Concat(c.Command, c.Args)
		}
	}
	t.Fatalf("there is no container %s", container)
	return nil
}

func TestTheCloudsControllerKnowsHowPodsAreReached(t *testing.T) {
	for name, tt := range map[string]struct{ has, lacks []string }{
		"on GCE": {[]string{"--allocate-node-cidrs=true", "--cidr-allocator-type=CloudAllocator", "--cluster-cidr=100.96.0.0/11", "--cluster-name=c-example-com", "--controllers=*", "--leader-elect=true",
			"--cloud-provider=gce", "--use-service-account-credentials=true", "--cloud-config=/etc/kubernetes/cloud.config", "--v=2"}, []string{"--configure-cloud-routes=false"}},
		"on GCE with addresses of the network": {[]string{"--allocate-node-cidrs=true", "--cidr-allocator-type=CloudAllocator", "--configure-cloud-routes=false"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := object[appsv1.DaemonSet](t, gceOf(t, name), "gcp-cloud-controller.addons.k8s.io", "DaemonSet", "cloud-controller-manager")
			args := arguments(t, d.Spec.Template, "cloud-controller-manager")
			for _, a := range tt.has {
				if n := strings.Count(strings.Join(args, "\n")+"\n", a+"\n"); n != 1 {
					t.Errorf("%s is there %d times: %v", a, n, args)
				}
			}
			for _, a := range tt.lacks {
				if slices.Contains(args, a) {
					t.Errorf("it has %s", a)
				}
			}
		})
	}
}

// One class is the default, and the driver's classes exist if the driver does.
func TestStorageClassesOfGCE(t *testing.T) {
	for name, want := range map[string]string{
		"on GCE":                             "balanced-csi* balanced-storage ssd-csi standard standard-csi",
		"on GCE with options":                "balanced-csi balanced-storage ssd-csi* standard standard-csi",
		"on GCE without the driver of disks": "standard*",
	} {
		var got []string
		for _, f := range gceOf(t, name).Files {
			for _, o := range objectsOf(t, f) {
				if o["kind"] != "StorageClass" {
					continue
				}
				meta, _ := o["metadata"].(map[string]any)
				label, _ := meta["name"].(string)
				if notes, _ := meta["annotations"].(map[string]any); notes["storageclass.kubernetes.io/is-default-class"] == "true" {
					label += "*"
				}
				got = append(got, label)
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: the classes are %s, want %s", name, text, want)
		}
	}
	fast := object[storagev1.StorageClass](t, gceOf(t, "on GCE"), "gcp-pd-csi-driver.addons.k8s.io", "StorageClass", "balanced-storage")
	if fast.Parameters["type"] != "hyperdisk-balanced" || fast.Parameters["provisioned-iops-on-create"] != "5000" || fast.Parameters["provisioned-throughput-on-create"] != "250Mi" {
		t.Errorf("the class is %+v", fast.Parameters)
	}
}

func TestTheDriverOfDisksMarksThemAsTheClusters(t *testing.T) {
	const addon = "gcp-pd-csi-driver.addons.k8s.io"
	r := gceOf(t, "on GCE with options")
	controller := object[appsv1.Deployment](t, r, addon, "Deployment", "csi-gce-pd-controller")
	if args := arguments(t, controller.Spec.Template, "gce-pd-driver"); !slices.Contains(args, "--extra-labels=k8s-io-cluster-name=c-example-com") || !slices.Contains(args, "--run-node-service=false") {
		t.Errorf("the controller is run with %v", args)
	}
	for _, options := range []string{"on GCE", "on GCE with options"} { // whether or not kops runs a snapshot controller
		d := object[appsv1.Deployment](t, gceOf(t, options), addon, "Deployment", "csi-gce-pd-controller")
		arguments(t, d.Spec.Template, "csi-snapshotter")
	}
	node := object[appsv1.DaemonSet](t, r, addon, "DaemonSet", "csi-gce-pd-node")
	if args := arguments(t, node.Spec.Template, "gce-pd-driver"); !slices.Contains(args, "--run-controller-service=false") {
		t.Errorf("the nodes' is run with %v", args)
	}
	if controller.Spec.Selector.MatchLabels["app"] != "gcp-compute-persistent-disk-csi-driver" || !maps.Equal(controller.Spec.Selector.MatchLabels, node.Spec.Selector.MatchLabels) {
		t.Errorf("the selectors are %v and %v", controller.Spec.Selector, node.Spec.Selector) // a cluster that was created by kOps has these
	}
	for _, pod := range []corev1.PodTemplateSpec{controller.Spec.Template, node.Spec.Template} {
		if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, "gcp-compute-persistent-disk-csi-driver:v1.28.1") || !pod.Spec.HostNetwork {
			t.Errorf("the pod has the image %s and the host network %t", image, pod.Spec.HostNetwork)
		}
	}
}

func TestNamesOnGCEArePublishedInItsProject(t *testing.T) {
	external := object[appsv1.Deployment](t, gceOf(t, "on GCE with options"), "external-dns.addons.k8s.io", "Deployment", "external-dns")
	args := arguments(t, external.Spec.Template, "external-dns")
	for _, a := range []string{"--provider=google", "--google-project=testproject", "--zone-id-filter=1"} {
		if !slices.Contains(args, a) {
			t.Errorf("external-dns lacks %s: %v", a, args)
		}
	}
	own := object[appsv1.Deployment](t, gceOf(t, "on GCE"), "dns-controller.addons.k8s.io", "Deployment", "dns-controller")
	if args := arguments(t, own.Spec.Template, "dns-controller"); !slices.Contains(args, "--dns=google-clouddns") || !slices.Contains(args, "--zone=*/1") {
		t.Errorf("dns-controller is run with %v", args)
	}
}

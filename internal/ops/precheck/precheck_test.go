package precheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/test/kubetest"
)

// server is a real API server on which tests create clusters in trouble.
type server struct {
	*testing.T
	kubernetes.Interface
	client *kubeclient.Client
	health *health.API
}

func must[T any](s *server, o T, err error) T {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return o
}

func start(t *testing.T) *server {
	t.Helper()
	config := kubetest.Serve(t, "--etcd-servers="+kubetest.Etcd(t), "--runtime-config=networking.k8s.io/v1beta1=true")
	config.WarningHandler = rest.NoWarnings{}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := health.Open(config, "")
	return must(&server{T: t}, &server{t, c, client, h}, err)
}

// find looks and judges; each finding becomes a line with its check, whether it stops the upgrade,
// and its text.
func (s *server) find(in precheck.Input) []string {
	s.Helper()
	base, err := s.health.Observe(s.Context())
	must(s, base, err)
	seen, err := precheck.Observe(s.Context(), s.client, base, in)
	must(s, seen, err)
	return text(precheck.Judge(in, seen))
}

// expect compares what one check finds with the expected prefixes of lines.
func (s *server) expect(in precheck.Input, check string, want ...string) {
	s.Helper()
	got := slices.DeleteFunc(s.find(in), func(l string) bool { return !strings.HasPrefix(l, check+" ") })
	if len(got) != len(want) {
		s.Fatalf("%s finds\n%s\nwant\n%s", check, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], check+" "+w) {
			s.Errorf("%s finds %q, want %q", check, got[i], w)
		}
	}
}

func target(v string) precheck.Input { return precheck.Input{Target: semver.MustParse(v)} }

// skipping returns an input that skips all checks but one.
func skipping(v, but string) precheck.Input {
	in := target(v)
	in.Skip = slices.DeleteFunc(precheck.Names(), func(n string) bool { return n == but })
	return in
}

func TestAgainstARealServer(t *testing.T) {
	s := start(t)
	if got := s.find(target("1.37.0")); len(got) > 0 {
		t.Errorf("of a new server are found %q", got)
	}
	t.Run("APIs that go", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).removedAPIs() })
	t.Run("nodes", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).nodes() })
	t.Run("budgets", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).budgets() })
	t.Run("etcd", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).etcd() })
	t.Run("API services", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).apiServices() })
	t.Run("webhooks", func(t *testing.T) { (&server{t, s.Interface, s.client, s.health}).webhooks() })
}

func (s *server) removedAPIs() {
	_, err := s.NetworkingV1beta1().ServiceCIDRs().Create(s.Context(), &networkingv1beta1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1beta1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}}, metav1.CreateOptions{FieldManager: "old-tool"})
	must(s, 0, err)
	s.expect(target("1.36.9"), precheck.RemovedAPIs)
	for range 2 { // looking does not itself count as a request
		s.expect(target("1.37.0"), precheck.RemovedAPIs,
			"stops networking.k8s.io/v1beta1 servicecidrs: is used by a client, and Kubernetes 1.37 no longer serves it; make the client use a newer version",
			"warns ServiceCIDR/more: was written in networking.k8s.io/v1beta1 by old-tool, and Kubernetes 1.37 no longer serves that API")
	}
	in := target("1.37.0")
	in.Skip = []string{precheck.RemovedAPIs}
	s.expect(in, precheck.RemovedAPIs)
}

func (s *server) nodes() {
	add := func(name, label, version string, ready corev1.ConditionStatus, cordoned bool) {
		n := must(s, &corev1.Node{}, nil)
		n.Name, n.Labels, n.Spec.Unschedulable = name, map[string]string{label: ""}, cordoned
		n, err := s.CoreV1().Nodes().Create(s.Context(), n, metav1.CreateOptions{})
		must(s, n, err)
		n.Status.NodeInfo.KubeletVersion = version
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "as the test says"}}
		_, err = s.CoreV1().Nodes().UpdateStatus(s.Context(), n, metav1.UpdateOptions{})
		must(s, n, err)
	}
	const control, worker = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/node"
	add("c1", control, "v1.36.3", corev1.ConditionTrue, false)
	add("c2", control, "v1.35.4", corev1.ConditionFalse, false)
	add("w1", worker, "v1.33.0", corev1.ConditionTrue, true)
	add("w2", worker, "v1.34.1", corev1.ConditionUnknown, false)
	add("w3", worker, "v1.36.3", corev1.ConditionTrue, false)
	s.expect(target("1.37.0"), precheck.Nodes,
		"stops Node/c2: is not ready: as the test says; see why: kops doctor",
		"warns Node/w1: is cordoned; replace it, or make it schedulable again: kubectl uncordon w1",
		"warns Node/w2: is not ready: as the test says")
	s.expect(target("1.37.0"), precheck.Skew,
		"stops Node/c2: is a control plane machine and still runs 1.35.4: no minor version may be skipped on the way to 1.37.0",
		"stops Node/w1: runs kubelet 1.33.0, but API servers of 1.37.0 support only kubelets of 1.34 and later",
		"warns Node/w2: still runs 1.34.1, 3 minor versions behind 1.37.0")
	s.expect(target("1.36.3"), precheck.Skew,
		"warns Node/w1: still runs 1.33.0, 3 minor versions behind 1.36.3",
		"warns Node/w2: still runs 1.34.1, 2 minor versions behind 1.36.3")
	s.expect(skipping("1.39.0", precheck.Skew), precheck.Skew,
		"stops Node/c1: is a", "stops Node/c2: is a", "stops Node/w1: runs", "stops Node/w2: runs", "stops the API server runs 1.3", "warns Node/w3: still runs 1.36.3")
	s.expect(target("1.37.0"), precheck.RemovedAPIs, "stops networking.k8s.io/v1beta1 servicecidrs",
		"warns ServiceCIDR/more", "warns 1 of 2 API servers reported which APIs clients use")
	for _, n := range []string{"c1", "c2", "w1", "w2", "w3"} {
		must(s, n, s.CoreV1().Nodes().Delete(s.Context(), n, metav1.DeleteOptions{}))
	}
}

func (s *server) budgets() {
	one, all := intstr.FromInt32(0), intstr.FromString("100%")
	add := func(name string, spec policyv1.PodDisruptionBudgetSpec, status policyv1.PodDisruptionBudgetStatus) {
		b := &policyv1.PodDisruptionBudget{Spec: spec}
		b.Name = name
		b, err := s.PolicyV1().PodDisruptionBudgets("default").Create(s.Context(), b, metav1.CreateOptions{})
		must(s, b, err)
		b.Status = status
		_, err = s.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(s.Context(), b, metav1.UpdateOptions{})
		must(s, b, err)
	}
	status := func(allowed, healthy, desired, expected int32) policyv1.PodDisruptionBudgetStatus {
		return policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected}
	}
	add("never", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}, status(0, 3, 3, 3))
	add("all", policyv1.PodDisruptionBudgetSpec{MinAvailable: &all}, status(0, 2, 2, 2))
	add("not-now", policyv1.PodDisruptionBudgetSpec{}, status(0, 2, 2, 3))
	add("good", policyv1.PodDisruptionBudgetSpec{}, status(1, 3, 2, 3))
	add("of-nothing", policyv1.PodDisruptionBudgetSpec{}, status(0, 0, 0, 0))
	s.expect(target("1.36.3"), precheck.Budgets,
		"stops PodDisruptionBudget/default/all: never allows the eviction of one of its 2 pods: spec.minAvailable is 100%; run more replicas",
		"stops PodDisruptionBudget/default/never: never allows the eviction of one of its 3 pods: spec.maxUnavailable is 0",
		"warns PodDisruptionBudget/default/not-now: allows no eviction now: 2 of its pods are healthy, and it requires 2")
}

func (s *server) etcd() {
	in := target("1.36.3")
	in.Etcd = []api.EtcdClusterSpec{{Name: "main", EtcdMembers: make([]api.EtcdMemberSpec, 3)}}
	s.expect(in, precheck.Etcd) // for a cluster with an external etcd, nothing is reported
	for i, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		p.Name, p.Labels = fmt.Sprintf("etcd-manager-main-%d", i), map[string]string{"k8s-app": "etcd-manager-main"}
		p, err := s.CoreV1().Pods("kube-system").Create(s.Context(), p, metav1.CreateOptions{})
		must(s, p, err)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		_, err = s.CoreV1().Pods("kube-system").UpdateStatus(s.Context(), p, metav1.UpdateOptions{})
		must(s, p, err)
	}
	s.expect(in, precheck.Etcd,
		"stops Pod/kube-system/etcd-manager-main-1: a member of the etcd main is not ready",
		"stops etcd/main: 1 of 3 members are ready")
	in.Etcd[0].Manager = &api.EtcdManagerSpec{Env: []api.EnvVar{{Name: "ETCD_QUOTA_BACKEND_BYTES", Value: "1000"}}}
	s.expect(in, precheck.Etcd,
		"stops Pod/kube-system/etcd-manager-main-1", "stops etcd/main: 1 of 3 members are ready",
		"stops etcd: etcd-0 uses 0 MiB of its quota of 0 MiB: it rejects writes when the quota is full")
}

func (s *server) apiServices() {
	body := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.metrics.k8s.io"},
		"spec":{"group":"metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,
		"service":{"namespace":"kube-system","name":"metrics-server"}}}`
	must(s, 0, s.Discovery().RESTClient().Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").
		SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(s.Context()).Error())
	s.expect(target("1.36.3"), precheck.APIServices,
		"warns APIService/v1beta1.metrics.k8s.io: its service kube-system/metrics-server does not exist; namespaces cannot be deleted meanwhile; repair its pods")
	s.service("kube-system", "metrics-server", false)
	s.expect(target("1.36.3"), precheck.APIServices,
		"warns APIService/v1beta1.metrics.k8s.io: its service kube-system/metrics-server has no endpoint that is ready")
}

func (s *server) service(namespace, name string, ready bool) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	service.Name = name
	_, err := s.CoreV1().Services(namespace).Create(s.Context(), service, metav1.CreateOptions{})
	must(s, 0, err)
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
	slice.Name, slice.Labels = name+"-1", map[string]string{discoveryv1.LabelServiceName: name}
	_, err = s.DiscoveryV1().EndpointSlices(namespace).Create(s.Context(), slice, metav1.CreateOptions{})
	must(s, 0, err)
}

func (s *server) webhooks() {
	none, ignore := admissionv1.SideEffectClassNone, admissionv1.Ignore
	hook := func(name, service, group, resource string, policy *admissionv1.FailurePolicyType) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{Name: name, SideEffects: &none, FailurePolicy: policy, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: service}},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}}}}}
	}
	s.service("default", "answers", true)
	s.service("default", "silent", false)
	v := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{
		hook("gone.example.com", "gone", "", "pods", nil), hook("silent.example.com", "silent", "example.com", "things", nil),
		hook("fine.example.com", "answers", "", "pods", nil), hook("whatever.example.com", "gone", "", "pods", &ignore)}}
	v.Name = "policy"
	_, err := s.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(s.Context(), v, metav1.CreateOptions{})
	must(s, 0, err)
	one := hook("inject.example.com", "silent", "apps", "*", nil)
	m := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{Name: one.Name, SideEffects: one.SideEffects,
		AdmissionReviewVersions: one.AdmissionReviewVersions, ClientConfig: one.ClientConfig, Rules: one.Rules}}}
	m.Name = "sidecars"
	_, err = s.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(s.Context(), m, metav1.CreateOptions{})
	must(s, 0, err)
	s.expect(target("1.36.3"), precheck.Webhooks,
		"stops ValidatingWebhookConfiguration/policy: its webhook gone.example.com must answer, but its service default/gone does not exist: requests that need it fail; repair its pods",
		"stops MutatingWebhookConfiguration/sidecars: its webhook inject.example.com must answer, but its service default/silent has no endpoint that is ready",
		"warns ValidatingWebhookConfiguration/policy: its webhook silent.example.com must answer, but its service default/silent has no endpoint")
}

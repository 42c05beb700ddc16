package addons_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/test/kubetest"
)

// oneGroup is a source with one group of nodes.
type oneGroup struct{}

func (oneGroup) GroupOf(context.Context, *corev1.Node) (string, error) { return "nodes", nil }

func (oneGroup) Marks(context.Context, string) (controller.Marks, error) {
	return controller.Marks{Labels: map[string]string{api.LabelInstanceGroup: "nodes"}, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}}, nil
}

// controllers installs the objects of the add-on that are not pods, and returns an administrator's
// client and kops-controller's.
func controllers(t *testing.T, config *rest.Config) (admin, own kubernetes.Interface) {
	t.Helper()
	const addon = "kops-controller.addons.k8s.io"
	r := build(t, cluster(t, func(*api.ClusterSpec) {}))
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, create := t.Context(), metav1.CreateOptions{}
	_, err1 := admin.RbacV1().ClusterRoles().Create(ctx, object[rbacv1.ClusterRole](t, r, addon, "ClusterRole", "kops-controller"), create)
	_, err2 := admin.RbacV1().ClusterRoleBindings().Create(ctx, object[rbacv1.ClusterRoleBinding](t, r, addon, "ClusterRoleBinding", "kops-controller"), create)
	_, err3 := admin.RbacV1().Roles("kube-system").Create(ctx, object[rbacv1.Role](t, r, addon, "Role", "kops-controller"), create)
	_, err4 := admin.RbacV1().RoleBindings("kube-system").Create(ctx, object[rbacv1.RoleBinding](t, r, addon, "RoleBinding", "kops-controller"), create)
	policies := admin.AdmissionregistrationV1()
	_, err5 := policies.ValidatingAdmissionPolicies().Create(ctx, object[admissionv1.ValidatingAdmissionPolicy](t, r, addon, "ValidatingAdmissionPolicy", "kops-gone-machines"), create)
	_, err6 := policies.ValidatingAdmissionPolicyBindings().Create(ctx, object[admissionv1.ValidatingAdmissionPolicyBinding](t, r, addon, "ValidatingAdmissionPolicyBinding", "kops-gone-machines"), create)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	return admin, as(t, config, "system:serviceaccount:kube-system:kops-controller")
}

// as returns a client for a user in some groups.
func as(t *testing.T, config *rest.Config, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fleet lists the existing machines; other nodes' machines are gone.
type fleet []string

func (f fleet) ListTerminated(_ context.Context, nodes []*corev1.Node) (out []string, _ error) {
	for _, n := range nodes {
		if !slices.Contains(f, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

func (f fleet) ListExisting(_ context.Context, names []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(f, n) }), nil
}

// The certificate of a machine that is gone can neither create its node again nor read a Secret; an
// existing machine can, even if its name was recorded as gone.
func TestTheCertificateOfAMachineThatIsGoneIsOfNoUse(t *testing.T) {
	config := kubetest.Start(t)
	admin, own := controllers(t, config)
	ctx, create := t.Context(), metav1.CreateOptions{}
	if _, err := admin.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, create); err != nil {
		t.Fatal(err)
	}
	joins := func(name string) error {
		_, err := as(t, config, "system:node:"+name, "system:nodes", "system:authenticated").CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, create)
		return err
	}
	lives := controller.Lifecycle{Nodes: own.CoreV1().Nodes(), Pods: own.CoreV1(), Machines: fleet{"lives", "ends"}, Clock: bootstrap.SystemClock(), Log: slog.New(slog.DiscardHandler),
		Dead: &controller.Dead{ConfigMaps: own.CoreV1().ConfigMaps("kube-system"), Now: time.Now}}
	once := func() {
		t.Helper()
		if err := lives.Once(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(joins("lives"), joins("ends")); err != nil {
		t.Fatal(err)
	}
	once()
	if err := admin.CoreV1().Nodes().Delete(ctx, "lives", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lives.Machines = fleet{"lives"}
	once()
	if _, err := admin.CoreV1().Nodes().Get(ctx, "ends", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the node of the machine that is gone is there: %v", err)
	}
	eventually(t, "a machine that is gone makes its node anew", func() bool { // the API server notices the record a moment later
		err := joins("ends")
		if err == nil || apierrors.IsAlreadyExists(err) {
			once()
			return false
		}
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "the machine of the node ends is gone")
	})
	secrets := as(t, config, "system:node:ends", "system:nodes", "system:authenticated").CoreV1().Secrets("kube-system")
	if _, err := secrets.Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads a Secret: %v", err)
	}
	if _, err := secrets.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads Secrets: %v", err)
	}
	if err := joins("lives"); err != nil {
		t.Errorf("a machine that lives cannot make its node anew: %v", err)
	}
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}, create); err != nil {
		t.Errorf("an administrator cannot make the node: %v", err)
	}
	once()
	lives.Machines = fleet{"lives", "ends"}
	once()
	eventually(t, "another machine of the name is kept out", func() bool { return joins("ends") == nil })
}

// eventually waits until a condition holds.
func eventually(t *testing.T, fails string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(fails)
		}
	}
}

// The roles of kops-controller suffice for what it does with a real API server, and for nothing
// else.
func TestTheRolesOfTheController(t *testing.T) {
	config := kubetest.Start(t)
	admin, own := controllers(t, config)
	ctx, create := t.Context(), metav1.CreateOptions{}
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, create); err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // the second time the lease exists
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		led := false
		if err := controller.Lead(ctx, own.CoordinationV1(), "a", func(context.Context) error { led = true; return nil }); err != nil || !led {
			t.Errorf("leading, time %d: %v", n+1, err)
		}
		stop()
	}
	node, err := own.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := controller.Labeller{Nodes: own.CoreV1().Nodes(), Groups: oneGroup{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	if err := l.Apply(ctx, node); err != nil {
		t.Error(err)
	}
	for what, do := range map[string]func() error{
		"create a node": func() error {
			_, err := own.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, create)
			return err
		},
		"read another configuration": func() error {
			_, err := own.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		},
		"read secrets": func() error {
			_, err := own.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"list leases": func() error {
			_, err := own.CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"delete another lease": func() error {
			return own.CoordinationV1().Leases("kube-system").Delete(ctx, "kube-scheduler", metav1.DeleteOptions{})
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}

package addons_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/controller"
	"kops.local/kops/internal/kubetest"
)

// oneGroup knows one group of nodes.
type oneGroup struct{}

func (oneGroup) GroupOf(context.Context, *corev1.Node) (string, error) { return "nodes", nil }

func (oneGroup) Labels(context.Context, string) (map[string]string, error) {
	return map[string]string{controller.LabelGroup: "nodes"}, nil
}

// The roles of kops-controller suffice for what it does, on a real API server, and for nothing else.
func TestTheRolesOfTheController(t *testing.T) {
	const addon = "kops-controller.addons.k8s.io"
	config := kubetest.Start(t)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := build(t, cluster(t, func(*api.ClusterSpec) {}))
	ctx, create := t.Context(), metav1.CreateOptions{}
	for _, f := range []func() error{
		func() error {
			_, err := admin.RbacV1().ClusterRoles().Create(ctx, object[rbacv1.ClusterRole](t, r, addon, "ClusterRole", "kops-controller"), create)
			return err
		},
		func() error {
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, object[rbacv1.ClusterRoleBinding](t, r, addon, "ClusterRoleBinding", "kops-controller"), create)
			return err
		},
		func() error {
			_, err := admin.RbacV1().Roles("kube-system").Create(ctx, object[rbacv1.Role](t, r, addon, "Role", "kops-controller"), create)
			return err
		},
		func() error {
			_, err := admin.RbacV1().RoleBindings("kube-system").Create(ctx, object[rbacv1.RoleBinding](t, r, addon, "RoleBinding", "kops-controller"), create)
			return err
		},
		func() error {
			_, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, create)
			return err
		},
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = "system:serviceaccount:kube-system:kops-controller"
	own, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // the second time the lease is there
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
		"delete a node": func() error { return own.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{}) },
		"read secrets": func() error {
			_, err := own.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"list leases": func() error {
			_, err := own.CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"delete a lease": func() error {
			return own.CoordinationV1().Leases("kube-system").Delete(ctx, "kops-controller-leader", metav1.DeleteOptions{})
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}

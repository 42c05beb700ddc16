package addons_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/platform/gce/gcetest"
	"kops.local/kops/internal/test/kubetest"
	"kops.local/kops/internal/test/turns"
)

// cloudController finds the controller for Google's cloud that tools/kubernetes has built. If there
// is none, the test is skipped; with CI=true it fails, because .ci/run builds it in this test's turn.
func cloudController(t *testing.T) string {
	t.Helper()
	turns.SkipUnlessTurn(t, 1, 3)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "kops", "build", "cloud-provider-gcp-v*-"+runtime.GOARCH, "bin", "cloud-controller-manager"))
	if err == nil && len(built) > 0 {
		return built[len(built)-1]
	}
	const missing = "no cloud-controller-manager for GCE; run `make programs CLOUD=gce`"
	if os.Getenv("CI") == "true" {
		t.Fatal("CANNOT RUN: " + missing)
	}
	t.Skip("SKIPPED, NO NODE WAS INITIALISED: " + missing)
	return ""
}

// account installs the parts of an add-on that define accounts' permissions, and returns a
// kubeconfig for one account.
func account(t *testing.T, config *rest.Config, admin kubernetes.Interface, r *addons.Result, addon, name string) string {
	t.Helper()
	ctx, create := t.Context(), metav1.CreateOptions{}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range r.Files {
		if f.Name != addon {
			continue
		}
		objects, err := addons.Decode(f.Content)
		check(err)
		for _, o := range objects {
			meta, _ := o["metadata"].(map[string]any)
			kind, name := fmt.Sprint(o["kind"]), fmt.Sprint(meta["name"])
			switch kind {
			case "ServiceAccount":
				_, err = admin.CoreV1().ServiceAccounts("kube-system").Create(ctx, object[corev1.ServiceAccount](t, r, addon, kind, name), create)
			case "ClusterRole":
				_, err = admin.RbacV1().ClusterRoles().Create(ctx, object[rbacv1.ClusterRole](t, r, addon, kind, name), create)
			case "ClusterRoleBinding":
				_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, object[rbacv1.ClusterRoleBinding](t, r, addon, kind, name), create)
			case "Role":
				_, err = admin.RbacV1().Roles("kube-system").Create(ctx, object[rbacv1.Role](t, r, addon, kind, name), create)
			case "RoleBinding":
				_, err = admin.RbacV1().RoleBindings("kube-system").Create(ctx, object[rbacv1.RoleBinding](t, r, addon, kind, name), create)
			}
			check(err)
		}
	}
	token, err := admin.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, create)
	check(err)
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	k.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check(clientcmd.WriteToFile(*k, file))
	return file
}

// The real controller, with the add-on's arguments and permissions, against a real API server and
// an emulated cloud.
func TestTheCloudsControllerInitialisesANode(t *testing.T) {
	program := cloudController(t)
	const addon, zone = "gcp-cloud-controller.addons.k8s.io", "compute/v1/projects/testproject/zones/us-test1-a"
	cloud := gcetest.Start(t, map[string]string{"project/project-id": "testproject", "instance/zone": "projects/1/zones/us-test1-b", "instance/network-interfaces/0/network": "projects/1/networks/c-example-com"})
	cloud.Put(zone, gcetest.Doc{"name": "us-test1-a", "region": "https://www.googleapis.com/compute/v1/projects/testproject/regions/us-test1"})
	cloud.Put(zone+"/instances/nodes-x1y2", gcetest.Doc{"name": "nodes-x1y2", "id": "11", "status": "RUNNING", "zone": "https://www.googleapis.com/" + zone, "machineType": "https://www.googleapis.com/" + zone + "/machineTypes/e2-medium",
		"networkInterfaces": []gcetest.Doc{{"networkIP": "10.0.32.3", "aliasIpRanges": []gcetest.Doc{{"ipCidrRange": "10.4.1.0/24"}}, "accessConfigs": []gcetest.Doc{{"natIP": "203.0.113.7"}}}}})

	r := gceOf(t, "on GCE with addresses of the network")
	config := kubetest.Start(t)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := account(t, config, admin, r, addon, "cloud-controller-manager")
	file := filepath.Join(t.TempDir(), "cloud.config")
	if err := os.WriteFile(file, []byte("[global]\nnode-tags = c-example-com-k8s-io-role-node\nmultizone = true\napi-endpoint = "+cloud.URL+"/compute/v1/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.DeleteFunc(arguments(t, object[appsv1.DaemonSet](t, r, addon, "DaemonSet", "cloud-controller-manager").Spec.Template, "cloud-controller-manager"),
		func(a string) bool { return strings.HasPrefix(a, "--cloud-config=") })
	c := exec.Command(program, append(args, "--cloud-config="+file, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--secure-port=0")...)
	c.Env, c.SysProcAttr = []string{"GCE_METADATA_HOST=" + cloud.Host}, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stdout, c.Stderr = t.Output(), t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait(); cancel() }()
	defer func() { _ = c.Process.Kill(); <-ended }() // it was asked to stop

	n := initialised(ctx, t, admin, "nodes-x1y2")
	addresses := map[corev1.NodeAddressType]string{}
	for _, a := range n.Status.Addresses {
		addresses[a.Type] = a.Address
	}
	if n.Spec.ProviderID != "gce://testproject/us-test1-a/nodes-x1y2" || n.Spec.PodCIDR != "10.4.1.0/24" || addresses[corev1.NodeInternalIP] != "10.0.32.3" || addresses[corev1.NodeExternalIP] != "203.0.113.7" ||
		n.Labels[corev1.LabelTopologyZone] != "us-test1-a" || n.Labels[corev1.LabelTopologyRegion] != "us-test1" || n.Labels[corev1.LabelInstanceTypeStable] != "e2-medium" {
		t.Errorf("the node is %+v, %+v, %v", n.Labels, n.Spec, n.Status.Addresses)
	}
}

// initialised creates a node as a cloud machine's kubelet does, and waits until the cloud's
// controller has initialised it, or the context ends.
func initialised(ctx context.Context, t *testing.T, admin kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	const taint = "node.cloudprovider.kubernetes.io/uninitialized"
	w, err := admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	_, err = admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.0.32.3"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		n, ok := e.Object.(*corev1.Node)
		// Addresses are set last, in an update of their own.
		if ok && n.Spec.PodCIDR != "" && len(n.Status.Addresses) > 0 && !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == taint }) {
			return n
		}
	}
	t.Fatal("the node is not initialised")
	return nil
}

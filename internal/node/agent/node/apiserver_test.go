package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/test/kubetest"
)

// An API server that is asked to stop does so at once, even with open watches.
func TestTheAPIServerStopsDespiteWatches(t *testing.T) {
	contents, _ := texts(t, controlPlane(t))
	flag := regexp.MustCompile(`--shutdown-watch-termination-grace-period=\w+`).FindString(contents["/etc/kubernetes/manifests/kube-apiserver.manifest"])
	if flag == "" {
		t.Fatal("nothing bounds how long an API server waits for those who watch")
	}
	client, err := kubernetes.NewForConfig(kubetest.Serve(t, "--etcd-servers="+kubetest.Etcd(t), flag))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	out, err := exec.Command("pgrep", "--parent", strconv.Itoa(os.Getpid()), "--exact", "kube-apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	told := time.Now()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; time.Sleep(20 * time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		ended = err != nil || strings.Contains(string(state), ") Z ") // a zombie until its parent reaps it
		if time.Since(told) > 15*time.Second {
			t.Fatal("it does not end")
		}
	}
	t.Logf("it ended after %v", time.Since(told))
}

// An API server that stops at the same time as its etcd cannot finish its requests.
func TestEtcdFollowsTheAPIServer(t *testing.T) {
	in := controlPlane(t)
	in.Config.ControlPlaneConfig = &nodeconfig.ControlPlane{}
	in.Etcd = map[string]string{"main-cp": "metadata: {name: etcd}\n"}
	_, nodes := texts(t, in)
	at, api := nodes["host_file//etc/kubernetes/manifests/etcd-main-cp.manifest"], nodes["host_file//etc/kubernetes/manifests/kube-apiserver.manifest"]
	if api.Name == "" || !slices.Contains(at.After, api.Address) {
		t.Errorf("%s follows %v, and is to follow %s", at.Address, at.After, api.Address)
	}
}

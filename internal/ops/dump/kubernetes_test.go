package dump

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/test/kubetest"
)

// TestObjectsOfACluster checks against a real API server that every kind is included, and no
// secret.
func TestObjectsOfACluster(t *testing.T) {
	config := kubetest.Start(t)
	all, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = all.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, StringData: map[string]string{"password": "hush"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := Files{}
	f.Objects(t.Context(), c)
	f.Logs(t.Context(), c)
	if len(f) < 19 || !strings.Contains(string(f["kubernetes/secrets.yaml"]), "password") || !strings.Contains(string(f["kubernetes/namespaces.yaml"]), "kube-system") {
		t.Errorf("there are %d files; the secrets are\n%s", len(f), f["kubernetes/secrets.yaml"])
	}
	for path, text := range f {
		if strings.HasSuffix(path, ".error") || strings.Contains(string(text), "hush") || strings.Contains(string(text), "aHVzaA==") {
			t.Errorf("%s:\n%s", path, text)
		}
	}
}

// TestForeignNamesStayInTheFolder dumps from a compromised API server, which can name pods as it
// likes.
func TestForeignNamesStayInTheFolder(t *testing.T) {
	containers := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "../x", RestartCount: 1}, {Name: "/etc/y\x00"}, {Name: ""}}}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "../../../../pwned", Namespace: "kube-system"}, Status: containers},
		{ObjectMeta: metav1.ObjectMeta{Name: ".hidden", Namespace: "kube-system"}, Status: containers}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/kube-system/pods/.hidden/log" {
			_, _ = w.Write([]byte("what it wrote"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := kubeclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	f := Files{}
	f.Logs(t.Context(), c)
	if len(f) != 8 {
		t.Errorf("there are %d files, not 8", len(f))
	}
	if got := string(f["logs/_.hidden/_.._x.log"]); got != "what it wrote" {
		t.Errorf("of a container whose pod may have its name there is %q", got)
	}
	for path := range f {
		if !filepath.IsLocal(path) || strings.Count(path, "/") != 2 || strings.Contains(path, "/.") || strings.Contains(path, "\x00") {
			t.Errorf("%q leads elsewhere", path)
		}
	}
}

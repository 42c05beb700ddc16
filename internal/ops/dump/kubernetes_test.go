package dump

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"kops.local/kops/internal/test/kubetest"
)

// TestObjectsOfACluster: every kind is there, of a real API server, and no secret.
func TestObjectsOfACluster(t *testing.T) {
	c, err := kubernetes.NewForConfig(kubetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, StringData: map[string]string{"password": "hush"}}, metav1.CreateOptions{})
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

// TestForeignNamesStayInTheFolder: an API server that was taken over names pods as it likes.
func TestForeignNamesStayInTheFolder(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "../../../../pwned", Namespace: "kube-system"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "../x", RestartCount: 1}, {Name: "/etc/y\x00"}, {Name: ""}}}}
	f := Files{}
	f.Logs(t.Context(), fake.NewClientset(pod))
	if len(f) != 4 {
		t.Errorf("there are %d files, not 4", len(f))
	}
	for path := range f {
		if !filepath.IsLocal(path) || strings.Count(path, "/") != 2 || strings.Contains(path, "/.") || strings.Contains(path, "\x00") {
			t.Errorf("%q leads elsewhere", path)
		}
	}
}

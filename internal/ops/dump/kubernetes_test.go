package dump

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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

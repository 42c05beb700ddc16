package shell

import (
	"bytes"
	"testing"

	"kops.local/kops"
)

// Without a home, a key must not end up in the current folder.
func TestAKubeconfigNeedsAPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	app := &App{System: System{Err: &bytes.Buffer{}, Env: func(string) string { return "" }}}
	if file := app.Kubeconfig(); file != "" {
		t.Errorf("it would be %s", file)
	}
	if err := app.WriteKubeconfig(&kops.Access{Server: "https://a"}, "a.example.com", app.Kubeconfig(), kops.KubeconfigOptions{}); err == nil {
		t.Error("it was written")
	}
}

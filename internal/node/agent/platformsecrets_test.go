package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/platform/onmachine"
)

// A control plane keeps the secrets of its platform where only root reads them, and does not start
// without them.
func TestSecretsOfThePlatform(t *testing.T) {
	w := newWorld(t, controlPlane)
	var boot nodeconfig.Boot
	w.decode(string(w.boot), &boot)
	a := w.agent()
	a.PlatformSecrets = func(platform string) []string {
		if platform != boot.CloudProvider {
			t.Errorf("asked about %s", platform)
		}
		return []string{"TOKEN"}
	}
	at := boot.ConfigBase + "/" + layout.PlatformSecrets
	for want, secrets := range map[string]map[string]pki.Secret{"": nil, "it has no TOKEN": {"OTHER": pki.NewSecret("x")}} {
		if secrets != nil {
			w.store[at] = encodeSecrets(t, secrets)
		}
		if err := a.Converge(context.Background(), w.boot); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at) {
			t.Errorf("with %v: %v", secrets, err)
		}
		delete(w.store, at)
	}
	w.store[at] = encodeSecrets(t, map[string]pki.Secret{"OTHER": pki.NewSecret("x"), "TOKEN": pki.NewSecret("top secret")})
	if err := a.Converge(context.Background(), w.boot); err != nil {
		t.Fatal(err)
	}
	machine := onmachine.World{Root: w.root}
	if got, err := machine.Secret("TOKEN"); err != nil || got != "top secret" {
		t.Errorf("programs find %q, %v", got, err)
	}
	if got, err := machine.Secret("OTHER"); err == nil {
		t.Errorf("another secret is %q", got)
	}
	for path, want := range map[string]os.FileMode{"": 0o700, "TOKEN": 0o600} {
		if info, err := os.Stat(filepath.Join(w.root, "/etc/kubernetes/platform", path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	for _, r := range w.reports {
		if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "top secret") {
			t.Errorf("a report shows the secret, %v", err)
		}
	}
}

func encodeSecrets(t *testing.T, all map[string]pki.Secret) []byte {
	t.Helper()
	text, err := pki.EncodeSecrets(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

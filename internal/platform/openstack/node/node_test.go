package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/platform/openstack/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/swift/swifttest"
)

// A machine knows from its user data where to log in, and from a file who it is.
func TestAMachineLogsInWithTheConfigurationOfItsCloud(t *testing.T) {
	server := swifttest.Start(t)
	server.Container(t, "state", "")
	env := map[string]string{"OS_AUTH_URL": server.Identity(t), "OS_REGION_NAME": swifttest.Region, "OS_PROJECT_NAME": "p"}
	w := onmachine.World{Root: t.TempDir(), Env: func(name string) string { return env[name] }}
	s, err := Platform().Backends(w, nil).Open(t.Context(), "swift://state/c")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "a"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "log in to OpenStack") {
		t.Errorf("without a file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		file := filepath.Join(w.Root, cloudConfig)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[global]\nauth-url=\"http://127.0.0.1:1\"\nregion=\"elsewhere\"\napplication-credential-id=\"owner\"\napplication-credential-secret=\"secret\"\n[LoadBalancer]\nlb-method=ROUND_ROBIN\n")
	if _, err := s.Put(t.Context(), "a", []byte("b"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Get(t.Context(), "a"); string(got) != "b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	delete(env, "OS_AUTH_URL")
	write("[global]\nauth-url=\"" + server.Identity(t) + "\"\napplication-credential-id=\"owner\"\napplication-credential-secret=\"wrong\"\n")
	if s, err = Platform().Backends(w, nil).Open(t.Context(), "swift://state/c"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "a"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "answers 401") {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// The variables that control planes get are kept for later boots.
func TestVariablesOfTheStoreAreKept(t *testing.T) {
	kept := strings.Join(Platform().Environment, " ") + " "
	for _, v := range spec.Platform().Traits.Store.Variables {
		if !strings.Contains(kept, v+" ") {
			t.Errorf("%s is not kept", v)
		}
	}
}

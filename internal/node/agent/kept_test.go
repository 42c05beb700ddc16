package agent

import (
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/contract/nodeconfig"
)

// A machine whose cluster has a new authority verifies it with its last configuration.
func TestAMachineTrustsTheAuthorityOfItsLastConfiguration(t *testing.T) {
	root := t.TempDir()
	boot := &nodeconfig.Boot{ConfigServer: &nodeconfig.ConfigServer{CACertificates: "old"}}
	file := filepath.Join(root, configFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]string{{"", "old"}, {"ClusterName: a\n", "old"}, {"CAs:\n  kubernetes-ca: new\n", "new"}, {"CAs: [", "old"}} {
		if x[0] != "" {
			if err := os.WriteFile(file, []byte(x[0]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := Authorities(root, boot); got != x[1] {
			t.Errorf("with %q it is %q, want %q", x[0], got, x[1])
		}
	}
}

package nodeconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
)

// What one side writes, the other reads, and nothing else.
func TestConfigurationsAreReadAsTheyAreWritten(t *testing.T) {
	config := &nodeconfig.Config{ClusterName: "c", Assets: map[download.Arch][]string{download.ARM64: {"unverified@https://e.com/x"}}, CAs: map[string]string{"a": "PEM"}, KeypairIDs: map[string]string{"a": "1"},
		APIServerConfig: &nodeconfig.APIServer{}, ControlPlaneConfig: &nodeconfig.ControlPlane{}, Hooks: [2][]api.HookSpec{{{Name: "h"}}, nil}}
	text, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := nodeconfig.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(config, got); d != "" {
		t.Error(d)
	}
	if _, err := nodeconfig.Parse([]byte("ClusterNames: c")); err == nil || !strings.Contains(err.Error(), "read the node configuration") {
		t.Errorf("a key that is not known: %v", err)
	}

	boot := &nodeconfig.Boot{CloudProvider: "local", ClusterName: "c", InstanceGroupName: "g", InstanceGroupRole: "Node", ConfigServer: &nodeconfig.ConfigServer{Servers: []string{"https://x/"}},
		NodeupConfigHash: nodeconfig.Hash(text)}
	if text, err = boot.Encode(); err != nil {
		t.Fatal(err)
	}
	again, err := nodeconfig.ParseBoot(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(boot, again); d != "" {
		t.Error(d)
	}
	for text, says := range map[string]string{
		"{": "read the boot configuration", "ClusterName: c": "InstanceGroupName and InstanceGroupRole are needed",
		"{ClusterName: c, InstanceGroupName: g, InstanceGroupRole: Node}": "neither ConfigBase nor ConfigServer",
	} {
		if _, err := nodeconfig.ParseBoot([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

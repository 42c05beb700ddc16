package control

import (
	"strings"
	"testing"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/platform/incluster"
)

func TestItNeedsItsFolderOfMachines(t *testing.T) {
	_, err := connect(t.Context(), incluster.World{Config: &controllerconfig.Config{Cloud: "local"}})
	if err == nil || !strings.Contains(err.Error(), "server.provider.local.machines") {
		t.Errorf("got %v", err)
	}
}

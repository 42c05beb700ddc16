package layout_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
)

func TestGroupFolder(t *testing.T) {
	for role, want := range map[api.InstanceGroupRole]string{
		api.RoleControlPlane: "igconfig/control-plane/a/", api.RoleAPIServer: "igconfig/apiserver/a/",
		api.RoleNode: "igconfig/node/a/", api.RoleBastion: "igconfig/bastion/a/",
	} {
		if got := layout.GroupFolder(string(role), "a"); got != want {
			t.Errorf("files of a group of role %s are in %s, and not in %s", role, got, want)
		}
	}
}

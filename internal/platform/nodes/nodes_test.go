package nodes_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/providers"
)

// TestManifestsNameTheVolumesOfMachines checks that etcd-manager knows the provider in its manifest.
func TestManifestsNameTheVolumesOfMachines(t *testing.T) {
	c := &api.Cluster{}
	c.Name = "c.example.com"
	for _, p := range nodes.All() {
		of := providers.Of(p.Name)
		if of == nil {
			t.Errorf("kops does not know the platform %s", p.Name)
			continue
		}
		if p.Volumes == nil {
			continue
		}
		if v := of.Model.Volumes(c, "main", "control-plane"); !p.HasVolumesOf(v.Provider) {
			t.Errorf("the volumes of %s have the provider %q in manifests, which its machines do not know", p.Name, v.Provider)
		}
	}
}

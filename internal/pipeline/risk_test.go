package pipeline

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
)

// Only machines that already encrypt can lose the keys of objects.
func TestOnlyMachinesThatEncryptRunOtherEncryption(t *testing.T) {
	config := func(hash string) []byte {
		text := "APIServerConfig:\n  ClusterDNSDomain: cluster.local\n"
		if hash != "" {
			text += "  EncryptionConfigSecretHash: " + hash + "\n"
		}
		return []byte(text)
	}
	group := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleControlPlane}}
	group.Name = "cp"
	for _, c := range []struct {
		have, want string
		other      bool
	}{
		{"a", "b", true}, {"a", "a", false}, {"", "b", false}, {"a", "", false},
	} {
		machines := stale.Judge(stale.In{Groups: []*api.InstanceGroup{group}, Kept: map[string][]byte{(stale.Applied{Config: config(c.have)}).Hash(): config(c.have)},
			Machines: []platform.MachineGroup{{Name: "cp", Machines: []platform.Machine{{Name: "m", Group: "cp", Running: true}}}},
			Applied:  map[string]stale.Applied{"cp": {Config: config(c.have)}}, Wanted: map[string]stale.Wanted{"cp": {Config: config(c.want)}}})
		if differs := len(machines[0].Reasons) > 0; differs != (c.have != c.want) {
			t.Errorf("from %q to %q: the reasons are %v", c.have, c.want, machines[0].Reasons)
		}
		if got := runsOtherEncryption(machines); got != c.other {
			t.Errorf("from %q to %q: %t", c.have, c.want, got)
		}
	}
}

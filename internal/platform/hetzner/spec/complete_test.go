package spec_test

import (
	"testing"

	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/spectest"
)

// The range of a network is the shared network's, the usual one, or what the spec says.
func TestTheRangeOfTheNetwork(t *testing.T) {
	for fields, want := range map[string]string{"spec.networkID=ours": "10.7.0.0/16", "spec.networkID=unknown": "", "-spec.networkCIDR": "10.0.0.0/16", "spec.networkCIDR=10.9.0.0/16": "10.9.0.0/16"} {
		p := spec.Platform()
		in := complete.Input{Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"hetzner": {Region: "eu-central", Networks: map[string]facts.Network{"ours": {CIDRs: []string{"10.7.0.0/16"}}}}}},
			Channel: spectest.Stable(t), Platform: p.ForComplete()}
		in.Cluster, in.Groups = spectest.Read(t, []byte(clusterFile))
		in.Cluster = spectest.Assign(t, spectest.Assign(t, in.Cluster, []string{"-spec.networkCIDR"}), []string{fields})
		done, wrong := complete.Complete(in)
		if err := wrong.Err(); err != nil || done.Spec.Spec.Networking.NetworkCIDR != want {
			t.Errorf("%s: %v, %s", fields, err, done.Spec.Spec.Networking.NetworkCIDR)
		}
	}
}

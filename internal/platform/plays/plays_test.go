package plays_test

import (
	"slices"
	"testing"

	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/plays"
	"kops.local/kops/internal/platform/providers"
)

// TestKopsKnowsThePlays checks that the traits of platforms, which kops' help shows, say which can be
// emulated, in the same order.
func TestKopsKnowsThePlays(t *testing.T) {
	var want []string
	for _, p := range providers.All(platform.World{}) {
		if p.Rehearsed {
			want = append(want, string(p.Name))
		}
	}
	if got := rehearse.Names(plays.All()); !slices.Equal(got, want) {
		t.Errorf("the plays are %v, and the traits say %v", got, want)
	}
	for _, p := range plays.All() {
		if p.Check == nil || p.Start == nil {
			t.Errorf("the play of %s has no function", p.Name)
		}
	}
}

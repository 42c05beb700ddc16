package update

import (
	"testing"
)

// A preview from facts looks at all that the apply looks at.
func TestOnlyTerraformIsOffline(t *testing.T) {
	for o, want := range map[[2]string]bool{{"f", terraform}: true, {"", terraform}: false, {"f", direct}: false, {"f", dryrun}: false} {
		if got := offline(options{facts: o[0], target: o[1]}); got != want {
			t.Errorf("%q: %v", o, got)
		}
	}
}
